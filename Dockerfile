# A static binary on an empty base: `docker build -t capstan .`
# Its steps are the Makefile's. Mount a volume at /var/lib/capstan: it holds the
# key of the file handles, without which clients see stale handles after a
# restart.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN make static
RUN make install DESTDIR=/out BUILT=1 && install -d -m 755 /out/run/capstan

FROM scratch
COPY --from=build --chown=65532:65532 /out/ /
USER 65532:65532
VOLUME /var/lib/capstan
EXPOSE 2049 9649
ENTRYPOINT ["/usr/bin/capstan"]
CMD ["serve", "-c", "/etc/capstan/capstan.yaml"]
