# The same environment with the mistakes that such files really have. It builds, and fails
# five ways against rubrics/example.json.
FROM debian:bookworm-slim

# A run-time where the project needs a compiler (javac, jar), and no make.
RUN apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*

# JAVA_HOME is set in one layer's shell and gone in the next.
RUN export JAVA_HOME=/usr/lib/jvm/default

WORKDIR /workspace
# The configuration lands one folder too deep.
COPY example/ .
RUN mkdir etc && mv config etc/config

# A "service" that never becomes ready.
RUN printf '#!/bin/sh\nsleep 600\n' > /usr/local/bin/wait-until-ready && chmod +x /usr/local/bin/wait-until-ready

# An entry point that would swallow every command of a careless evaluator.
ENTRYPOINT ["/bin/true"]
