{{- define "sharder.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "sharder.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- $name := include "sharder.name" . }}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | replace "." "-" | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "sharder.serviceAccountName" -}}
{{- default (include "sharder.fullname" .) .Values.serviceAccount.name }}
{{- end }}

{{- define "sharder.image" -}}
{{- with .Values.image }}
{{- .repository }}{{ ternary (printf "@%s" .digest) (printf ":%s" (default $.Chart.AppVersion .tag)) (not (empty .digest)) }}
{{- end }}
{{- end }}

{{- define "sharder.selectorLabels" -}}
app.kubernetes.io/name: {{ include "sharder.name" . | quote }}
app.kubernetes.io/instance: {{ quote .Release.Name }}
{{- end }}

{{/* The labels of the chart itself, without commonLabels. */}}
{{- define "sharder.ownLabels" -}}
{{ include "sharder.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "sharder.labels" -}}
{{- toYaml (merge (include "sharder.ownLabels" . | fromYaml) .Values.commonLabels) }}
{{- end }}

{{/* The labels and annotations of an object that has none of its own. */}}
{{- define "sharder.metadata" -}}
labels:
  {{- include "sharder.labels" . | nindent 2 }}
{{- with .Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The SharderConfig: the user's values merged over those of the release; its mode is always set. */}}
{{- define "sharder.config" -}}
{{- $values := default dict .Values.config }}
{{- $name := include "sharder.fullname" . }}
{{- $webhook := dict "config" (dict) "server" (dict "port" 9443) }}
{{- if not (dig "webhook" "config" "clientConfig" "url" "" $values) }}
{{- $service := dict "namespace" .Release.Namespace "name" $name }}
{{- $_ := set $webhook.config "clientConfig" (dict "service" $service) }}
{{- end }}
{{- $certificates := dict "secretName" (printf "%s-certificates" $name) }}
{{- if .Values.certManager.enabled }}
{{- /* Not the sharder's own Secret, which has another type. */}}
{{- $certificates = dict "secretName" (printf "%s-cert-manager" $name) }}
{{- $_ := set $webhook.config "annotations" (dict "cert-manager.io/inject-ca-from" (printf "%s/%s" .Release.Namespace $name)) }}
{{- end }}
{{- $config := dict
      "apiVersion" "config.sharding.timebertt.dev/v1alpha1"
      "kind" "SharderConfig"
      "leaderElection" (dict "resourceNamespace" .Release.Namespace)
      "health" (dict "bindAddress" ":8081")
      "metrics" (dict "bindAddress" ":8080")
      "console" (dict "bindAddress" "127.0.0.1:8082")
      "certificates" $certificates
      "webhook" $webhook
}}
{{- $config = mergeOverwrite $config (deepCopy $values) }}
{{- $mode := "SelfManaged" }}
{{- range $key, $_ := $config.webhook.config.annotations }}
{{- if hasPrefix "cert-manager.io/inject-" $key }}
{{- $mode = "Files" }}
{{- end }}
{{- end }}
{{- $mode = default $mode $config.certificates.mode }}
{{- $_ := set $config.certificates "mode" $mode }}
{{- if and (eq $mode "Files") (not $config.webhook.server.certDir) }}
{{- $_ := set $config.webhook.server "certDir" "/etc/sharder-certificates" }}
{{- end }}
{{- toYaml $config }}
{{- end }}

{{/* The port of an address such as :8081; empty for 0, which turns the server off. */}}
{{- define "sharder.port" -}}
{{- if ne (toString .) "0" }}{{ regexFind "[0-9]+$" . }}{{ end }}
{{- end }}

{{/* The host in the serving certificate, from the configuration: that of the Service, or of the URL. */}}
{{- define "sharder.host" -}}
{{- with .webhook.config.clientConfig.service -}}
{{ .name }}.{{ .namespace }}.svc
{{- else -}}
{{ regexReplaceAll ":[0-9]+$" (urlParse .webhook.config.clientConfig.url).host "" | trimAll "[]" }}
{{- end }}
{{- end }}
