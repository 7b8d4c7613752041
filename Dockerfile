# Python >= 3.11 with venv.  Name it by its digest, for a tag may become another image.
# Without a daemon: buildah build --isolation chroot --pull-never --build-arg BASE_IMAGE=... .
ARG BASE_IMAGE=python:3.13-slim

FROM ${BASE_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
# What changes seldom comes first.  Only wheels: an archive would bring a build along, and what that
# downloads has no hash.
COPY hack/build.lock hack/requirements.lock hack/
RUN python3 -m venv /opt/build \
    && /opt/build/bin/pip install --only-binary :all: --require-hashes -r hack/build.lock \
    && python3 -m venv --without-pip /opt/sharder \
    && /opt/build/bin/pip --python /opt/sharder/bin/python install \
        --only-binary :all: --require-hashes -r hack/requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY sharder sharder
COPY webhook webhook
RUN /opt/build/bin/pip wheel --no-index --no-deps --no-build-isolation -w /opt/build/wheels . \
    && /opt/build/bin/pip --python /opt/sharder/bin/python install \
        --no-index --no-deps /opt/build/wheels/*.whl \
    && /opt/build/bin/pip --python /opt/sharder/bin/python check

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
