# syntax=docker/dockerfile:1
# Actors with DeepMind Lab, without TensorFlow, on x86-64; docker/build.sh dmlab builds and tags this image.
#
# DeepMind Lab is on no package index: the stage `build` makes a wheel. To get only the wheel, in the directory wheels/:
#   docker build -f docker/dmlab.Dockerfile --target=wheel --output=wheels .
#
# With --build-arg=LOCK=requirements/runtime.lock the image also holds a learner, for `train`:
#   docker build -t seed_rl_dmlab -f docker/dmlab.Dockerfile --build-arg=LOCK=requirements/runtime.lock .
#   docker run --rm --user "$(id -u):$(id -g)" -v "$PWD/runs:/runs" seed_rl_dmlab \
#     train --gin_file=dmlab/small --logdir=/runs/lab
#
# See docs/dmlab.md. Not yet built by CI.

# The native module depends on the versions of Python and numpy, so it is built and run with the same ones.
FROM python:3.11.14-slim-bookworm AS base

# All locks have the same numpy.
ARG LOCK=requirements/actor.lock
WORKDIR /opt/seed_rl
COPY requirements requirements
RUN pip install --no-cache-dir --require-hashes -r "$LOCK"


FROM base AS build

# SDL, EGL and GL, and OSMesa to link with; libffi, zlib, gettext and pkg-config for glib's configure script; zip for
# the simulator's own archives. Versions are Debian's, which keeps no old ones to pin.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --no-install-recommends --yes \
        ca-certificates \
        g++ \
        gettext \
        git \
        libegl-dev \
        libffi-dev \
        libgl-dev \
        libosmesa6-dev \
        libsdl2-dev \
        make \
        pkg-config \
        zip \
        zlib1g-dev \
    && rm -rf /var/lib/apt/lists/*

# The build files are of a kind that Bazel 8 disables by default (WORKSPACE), and name Python 2, which it rejects.
# With this Bazel 7 and the Abseil below, users of upstream's repository report that it builds.
ADD --checksum=sha256:ac6249d1192aea9feaf49dfee2ab50c38cee2454b00cf29bbec985a11795c025 --chmod=755 \
    https://github.com/bazelbuild/bazel/releases/download/7.6.1/bazel-7.6.1-linux-x86_64 /usr/local/bin/bazel

# The only two dependencies that WORKSPACE does not pin: it takes the newest commit of each, and the newest Abseil no
# longer fits. Bazel gets these directories instead; the marker file makes them repositories.
ADD --checksum=sha256:5366d7e7fa7ba0d915014d387b66d0d002c03236448e1ba9ef98122c13b35c36 \
    https://github.com/abseil/abseil-cpp/archive/refs/tags/20230125.3.tar.gz /deps/abseil-cpp.tar.gz
ADD --checksum=sha256:bc283cdfcd526a52c3201279cda4bc298652efa898b10b4db0837dc51652756f \
    https://github.com/bazelbuild/bazel-skylib/releases/download/1.7.1/bazel-skylib-1.7.1.tar.gz \
    /deps/bazel-skylib.tar.gz
RUN mkdir /deps/abseil-cpp /deps/bazel-skylib \
    && tar -xzf /deps/abseil-cpp.tar.gz -C /deps/abseil-cpp --strip-components=1 \
    && tar -xzf /deps/bazel-skylib.tar.gz -C /deps/bazel-skylib \
    && touch /deps/abseil-cpp/WORKSPACE /deps/bazel-skylib/WORKSPACE

# The head of upstream's branch master since January 2023.
ARG LAB_COMMIT=b1db91af5b4d2f3a24466f4632a3e5e1b0829cca
WORKDIR /lab
RUN git init --quiet \
    && git fetch --quiet --depth=1 https://github.com/google-deepmind/lab.git "$LAB_COMMIT" \
    && git checkout --quiet FETCH_HEAD

# The only change to upstream's files: the original needs pkg_resources and dm_env.
COPY docker/deepmind_lab_init.py python/pip_package/__init__.py

# Without Bazel's modules the files of the package are where its code looks for them. The C++ standard is that of
# upstream's checks.
RUN bazel build --compilation_mode=opt \
        --noenable_bzlmod --enable_workspace \
        --cxxopt=-std=c++17 --host_cxxopt=-std=c++17 \
        --override_repository=com_google_absl=/deps/abseil-cpp \
        --override_repository=bazel_skylib=/deps/bazel-skylib \
        //python/pip_package:build_pip_package \
    && PYTHON_BIN_PATH=/usr/local/bin/python bazel-bin/python/pip_package/build_pip_package /wheels


FROM scratch AS wheel

COPY --from=build /wheels/ /


FROM base AS package

COPY . .
RUN pip install --no-cache-dir --require-hashes -r requirements/build.lock \
    && pip install --no-cache-dir --no-deps --no-build-isolation --root=/package .


FROM base AS dmlab

# OSMesa renders without a screen or a graphics card; zip packs the maps that levels compile.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --no-install-recommends --yes \
        libosmesa6 \
        libsdl2-2.0-0 \
        tini \
        zip \
    && rm -rf /var/lib/apt/lists/*

# The extra `dmlab`, and the simulator.
RUN --mount=type=bind,from=wheel,target=/wheels \
    pip install --no-cache-dir --require-hashes -r requirements/dmlab.lock \
    && pip install --no-cache-dir --no-deps /wheels/*.whl
COPY --from=package /package /

COPY docker/health.py docker/cloud/vertex_start.py /usr/local/lib/seed_rl/
# Containers may run as another user, who must be able to enter the working directory.
RUN useradd --create-home --uid 1000 seed_rl \
    && chmod 755 /home/seed_rl \
    && install --directory --owner=1000 --group=1000 /runs
ENV PYTHONUNBUFFERED=1
USER 1000:1000
WORKDIR /home/seed_rl

# Fails if the simulator can't be loaded, compile a map or render it.
RUN python -c "from seed_rl.envs.dmlab import DMLab; from seed_rl.envs.dmlab.env import DMLabEnv; \
env = DMLabEnv(DMLab(level='explore_goal_locations_small')); \
env.reset(seed=1); \
assert env.step(0)[0].any(); \
env.close()"

HEALTHCHECK --interval=30s --timeout=10s --start-period=120s --retries=3 \
    CMD ["python3", "/usr/local/lib/seed_rl/health.py"]
ENTRYPOINT ["tini", "--", "seed_rl"]
CMD ["--help"]
