package main

import (
	"context"
	"fmt"
	"maps"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	shardcontroller "github.com/timebertt/kubernetes-controller-sharding/pkg/shard/controller"
)

// A Website is a custom resource with four children; hack/manifests/load.yaml has its CRD.
type Website struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              WebsiteSpec   `json:"spec,omitempty"`
	Status            WebsiteStatus `json:"status,omitempty"`
}

type WebsiteSpec struct {
	Theme string `json:"theme"`
}

// WebsiteStatus says what has been done: Ready is when the Deployment of this generation is available.
type WebsiteStatus struct {
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
	Phase              string `json:"phase,omitempty"`
}

type WebsiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Website `json:"items"`
}

func (w *Website) DeepCopyObject() runtime.Object {
	out := *w
	w.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

func (l *WebsiteList) DeepCopyObject() runtime.Object {
	out := *l
	out.Items = make([]Website, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Website)
	}
	return &out
}

func addWebsites(scheme *runtime.Scheme) {
	version := schema.GroupVersion{Group: "load.example.com", Version: "v1"}
	scheme.AddKnownTypes(version, &Website{}, &WebsiteList{})
	metav1.AddToGroupVersion(scheme, version)
}

// websites does the work of that project's own example, its webhosting operator: what the users of
// the library write, with as many writes, watches and workers.
type websites struct {
	client.Client
}

// addWebsiteController adds the controller, as a shard if there is a ring.
func addWebsiteController(mgr manager.Manager, ring, shard string, workers int) error {
	var changed predicate.Predicate = predicate.Or(
		predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{},
	)
	var reconciler reconcile.Reconciler = &websites{mgr.GetClient()}
	if ring != "" {
		changed = shardcontroller.Predicate(ring, shard, changed)
		reconciler = shardcontroller.NewShardedReconciler(mgr).
			For(&Website{}).InControllerRing(ring).WithShardName(shard).MustBuild(reconciler)
	}
	generation := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	return builder.ControllerManagedBy(mgr).
		Named("websites").
		For(&Website{}, builder.WithPredicates(changed)).
		Owns(&appsv1.Deployment{}, builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, updated(isAvailable),
		))).
		Owns(&corev1.ConfigMap{}, builder.WithPredicates(updated(dataOf))).
		Owns(&corev1.Service{}, generation).
		Owns(&networkingv1.Ingress{}, generation).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(reconciler)
}

// updated passes updates that change this part of the object, and all that are no updates.
func updated[T client.Object, P any](part func(T) P) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return !equality.Semantic.DeepEqual(part(e.ObjectOld.(T)), part(e.ObjectNew.(T)))
	}}
}

func dataOf(c *corev1.ConfigMap) map[string]string { return c.Data }

func isAvailable(d *appsv1.Deployment) bool {
	if d.Status.ObservedGeneration < d.Generation {
		return false
	}
	for _, condition := range d.Status.Conditions {
		if condition.Type == appsv1.DeploymentAvailable {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// Reconcile writes the children and then the status, each only if it differs.
func (w *websites) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	site := &Website{}
	if err := w.Get(ctx, request.NamespacedName, site); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if site.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	status := WebsiteStatus{ObservedGeneration: site.Generation, Phase: "Pending"}
	deployment, problem := w.reconcileChildren(ctx, site)
	if problem != nil {
		status.Phase = "Error"
	} else if isAvailable(deployment) {
		status.Phase = "Ready"
	}
	if status != site.Status {
		site.Status = status
		if err := w.Status().Update(ctx, site); err != nil && problem == nil {
			problem = err
		}
	}
	return reconcile.Result{}, problem
}

func (w *websites) reconcileChildren(ctx context.Context, site *Website) (*appsv1.Deployment, error) {
	meta := metav1.ObjectMeta{Namespace: site.Namespace, Name: site.Name}
	own := map[string]string{"app": "website", "website": site.Name}
	page := strings.Repeat(fmt.Sprintf("<p>%s/%s in %s</p>\n", site.Namespace, site.Name, site.Spec.Theme), 32)

	configMap := &corev1.ConfigMap{ObjectMeta: meta}
	if err := w.write(ctx, site, configMap, own, func() {
		configMap.Data = map[string]string{"index.html": page, "nginx.conf": "server { listen 80; }\n"}
	}); err != nil {
		return nil, err
	}
	service := &corev1.Service{ObjectMeta: meta}
	if err := w.write(ctx, site, service, own, func() {
		service.Spec.Type = corev1.ServiceTypeClusterIP
		service.Spec.Selector = own
		service.Spec.Ports = []corev1.ServicePort{{
			Name: "http", Port: 8080, TargetPort: intstr.FromString("http"), Protocol: corev1.ProtocolTCP,
		}}
	}); err != nil {
		return nil, err
	}
	ingress := &networkingv1.Ingress{ObjectMeta: meta}
	if err := w.write(ctx, site, ingress, own, func() {
		backend := networkingv1.IngressServiceBackend{
			Name: site.Name, Port: networkingv1.ServiceBackendPort{Name: "http"},
		}
		ingress.Spec.Rules = []networkingv1.IngressRule{{IngressRuleValue: networkingv1.IngressRuleValue{
			HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{
				Path:     "/" + site.Namespace + "/" + site.Name,
				PathType: ptr.To(networkingv1.PathTypePrefix),
				Backend:  networkingv1.IngressBackend{Service: &backend},
			}}},
		}}}
	}); err != nil {
		return nil, err
	}
	deployment := &appsv1.Deployment{ObjectMeta: meta}
	err := w.write(ctx, site, deployment, own, func() { fillDeployment(&deployment.Spec, own, site.Spec.Theme) })
	return deployment, err
}

// fillDeployment leaves alone what the API server sets by default: no write may follow from that.
func fillDeployment(spec *appsv1.DeploymentSpec, own map[string]string, theme string) {
	spec.Replicas = ptr.To[int32](0) // no pod runs, here nor in that project's load tests
	spec.RevisionHistoryLimit = ptr.To[int32](2)
	spec.Selector = &metav1.LabelSelector{MatchLabels: own}
	spec.Template.Labels = own
	spec.Template.Annotations = map[string]string{"checksum/configmap": theme}
	if len(spec.Template.Spec.Containers) != 1 {
		spec.Template.Spec.Containers = make([]corev1.Container, 1)
	}
	container := &spec.Template.Spec.Containers[0]
	container.Name, container.Image = "nginx", "registry.example.com/nginx:1"
	container.Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 80, Protocol: corev1.ProtocolTCP}}
	container.VolumeMounts = []corev1.VolumeMount{
		{Name: "website", ReadOnly: true, MountPath: "/usr/share/nginx/html"},
	}
	spec.Template.Spec.Volumes = []corev1.Volume{{Name: "website", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: own["website"]},
			DefaultMode:          ptr.To(corev1.ConfigMapVolumeSourceDefaultMode),
		},
	}}}
}

// write creates or patches a child.  All labels of the website are its own too, so that it is created
// with the right owner label.
func (w *websites) write(
	ctx context.Context, site *Website, child client.Object, own map[string]string, fill func(),
) error {
	_, err := controllerutil.CreateOrPatch(ctx, w.Client, child, func() error {
		labels := maps.Clone(own)
		maps.Copy(labels, site.Labels)
		child.SetLabels(labels)
		fill()
		return controllerutil.SetControllerReference(site, child, w.Scheme())
	})
	return err
}

// deployments stands in for the cluster's own controller, which says when a Deployment is available.
type deployments struct {
	client.Client
}

func addDeploymentController(mgr manager.Manager, workers int) error {
	return builder.ControllerManagedBy(mgr).
		Named("deployments").
		For(&appsv1.Deployment{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(&deployments{mgr.GetClient()})
}

func (d *deployments) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	deployment := &appsv1.Deployment{}
	if err := d.Get(ctx, request.NamespacedName, deployment); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	before := deployment.DeepCopy()
	deployment.Status.ObservedGeneration = deployment.Generation
	deployment.Status.Conditions = []appsv1.DeploymentCondition{{
		Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable",
	}}
	return reconcile.Result{}, client.IgnoreNotFound(d.Status().Patch(ctx, deployment, client.MergeFrom(before)))
}
