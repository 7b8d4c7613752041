ARG BASE_IMAGE=python:3.13-slim

FROM ${BASE_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/sharder
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY hack/constraints.txt hack/constraints.txt
COPY sharder sharder
COPY webhook webhook
RUN /opt/sharder/bin/pip install -c hack/constraints.txt '.[server]'

FROM ${BASE_IMAGE}
COPY --from=build /opt/sharder /opt/sharder
ENV PATH=/opt/sharder/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# A number, for the kubelet can check runAsNonRoot only against a number.
USER 65532:65532
# Webhook, metrics, health.
EXPOSE 9443 8080 8081
ENTRYPOINT ["sharder"]
CMD ["run", "--config", "/etc/sharder/config.yaml"]
