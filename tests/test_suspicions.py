"""Which lines of a failure are suspicious: a real line for each pattern, and lines that are not.

A row is "kind | tool | origin | line"; in a line ⏎ is the end of one. An origin is a log of the
collections that tests/corpus reads (shipwright 63 is data/for-clustering/as-json-63.json.gz), an
issue on GitHub, the documentation of the tool, or "recorded": the tool ran against a server that
fails so, or without memory, space or threads.
"""

import pytest
from cases import run_command, table

import DockerfileEvaluator as de

SUSPICIOUS = r"""
limits | dash | recorded | dash: 1: Cannot fork
limits | git | recorded | error: cannot fork() for remote-http: Resource temporarily unavailable
limits | bash | recorded | bash: fork: retry: Resource temporarily unavailable
limits | gcc | recorded | gcc: fatal error: cannot execute ‘/usr/lib/gcc/x86_64-linux-gnu/12/cc1’: vfork: Resource temporarily unavailable
limits | OpenBLAS | recorded | OpenBLAS blas_thread_init: pthread_create failed for thread 2 of 64: Resource temporarily unavailable
limits | Python | recorded | BlockingIOError: [Errno 11] Resource temporarily unavailable
limits | Python | OpenBMB/XAgent#266 | RuntimeError: can't start new thread
limits | Go | recorded | runtime: failed to create new OS thread (have 9 already; errno=11)
limits | OpenBLAS | OpenBMB/XAgent#266 | OpenBLAS blas_thread_init: pthread_create failed for thread 1 of 16: Operation not permitted
limits | Rust | recorded | Too many open files (os error 24)
limits | Node.js | nodejs/docker-node#1810 | Error: ENOSPC: System limit for number of file watchers reached, watch '/home/node/gb/src/packages/editor/node_modules/date-fns/esm/millisecondsToSeconds'
limits | glibc | chainguard-images/images#1658 | Fatal glibc error: CPU does not support x86-64-v2
limits | Bun | oven-sh/bun#28346 | CPU lacks AVX support. Please consider upgrading to a newer CPU.
disk | dd | recorded | dd: error writing 'x': No space left on device
disk | cp | errno(3): EDQUOT | cp: error writing '/x': Disk quota exceeded
disk | npm | recorded | ENOSPC: copying file .eslintrc
disk | SQLite | recorded | sqlite3.OperationalError: database or disk is full
disk | Bundler | Bundler, gem_installer.rb | Your disk is out of space. Free some space to be able to install your bundle.
disk | dnf | recorded | At least 57MB more space needed on the / filesystem.
disk | apt | flakidock miykael@gif_your_nifti | E: You don't have enough free space in /var/cache/apt/archives/.
disk | apt | docker/for-mac#6963 | W: GPG error: http://deb.debian.org/debian stable InRelease: At least one invalid signature was encountered.
memory | sort | recorded | sort: memory exhausted
memory | Node.js | recorded | FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory
memory | Java | recorded | # There is insufficient memory for the Java Runtime Environment to continue.
memory | Python | recorded | MemoryError
memory | Java | recorded | e: java.lang.OutOfMemoryError: Metaspace
memory | Node.js | recorded | Error: spawn ENOMEM
memory | C++ | recorded | what():  std::bad_alloc
memory | .NET | recorded | GC heap initialization failed with error 0x8007000E
memory | xz | recorded | xz: (stdin): Cannot allocate memory
memory | R | recorded | Error: cannot allocate vector of size 7.5 Gb
memory | bash | recorded | bash: xrealloc: cannot allocate 7733248 bytes
memory | Rust | recorded | memory allocation of 70368744177664 bytes failed
memory | Java | recorded | Could not reserve enough space for 104857600KB object heap
memory | Maven | shipwright 4046 | [ERROR] GC overhead limit exceeded -> [Help 1]
memory | Node.js | recorded | # Fatal javascript OOM in MemoryChunk allocation failed during deserialization.
memory | bash | recorded | bash: line 1: 10099 Killed                  bash -c "kill -9 \$\$"
memory | make | recorded | make: *** [Makefile:4: b] Killed
memory | gcc | recorded | gcc: fatal error: Killed signal terminated program cc1
memory | joblib | recorded | The exit codes of the workers are {SIGKILL(-9)}
memory | gcc | recorded | collect2: fatal error: ld terminated with signal 9 [Killed]
memory | dpkg | a public report | dpkg-deb: error: <decompress> subprocess was killed by signal (Killed)
memory | PyTorch | recorded | RuntimeError: DataLoader worker (pid 325) is killed by signal: Bus error.
memory | npm | recorded | npm ERR! errno 137
memory | tox | recorded | code -9 (9.59=setup[9.38]+cmd[0.21] seconds)
memory | Vitest | recorded | Error: Worker exited unexpectedly
memory | pytest-xdist | recorded | worker 'gw0' crashed while running 'test_a.py::test_a'
memory | Gradle | recorded | Gradle build daemon disappeared unexpectedly (it may have been killed or may have crashed)
memory | Python | recorded | concurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated abruptly while the future was running or pending.
memory | Puppeteer | puppeteer/puppeteer#1321 | Error: Page crashed!
emulation | QEMU | recorded | qemu: uncaught target signal 11 (Segmentation fault) - core dumped
emulation | Rosetta | recorded | rosetta error: failed to open elf at /lib64/ld-linux-x86-64.so.2
emulation | runc | shipwright 1242 | standard_init_linux.go:190: exec user process caused "exec format error"
emulation | runc | recorded | exec /bin/sh: exec format error
gone | apt | flakidock diemol@frontend_testing | W: Failed to fetch http://deb.debian.org/debian/dists/jessie/main/binary-amd64/Packages  404  Not Found
gone | apt | shipwright 2816 | W: Failed to fetch https://apt.dockerproject.org/repo/dists/ubuntu-trusty/main/binary-amd64/Packages  HttpError404
gone | apt | recorded | E: Release file for http://deb.example.org/debian-security/dists/bullseye-security/InRelease is expired (invalid since 3d 22h 16min 38s). Updates for this repository will not be applied.
gone | apt | shipwright 3427 | E: Repository 'http://deb.devuan.org/merged beowulf InRelease' changed its 'Suite' value from 'testing' to 'stable'
gone | apt | shipwright 2292 | W: GPG error: http://nginx.org wheezy Release: The following signatures were invalid: KEYEXPIRED 1471427554
gone | apt | recorded | Sub-process /usr/bin/sqv returned an error code (1), error message is: Signing key on 6084F3CF814B57C1CF12EFD515CF4D18AF4F7421 is not bound:            No binding signature at time 2025-12-21T22:28:23Z   because: Policy rejected non-revocation signature (PositiveCertification) requiring second pre-image resistance   because: SHA1 is not considered secure since 2026-02-01T00:00:00Z
gone | apt | shipwright 4831 | W: GPG error: http://http.us.debian.org/debian testing InRelease: The following signatures couldn't be verified because the public key is not available: NO_PUBKEY 04EE7237B7D453EC NO_PUBKEY 648ACFD622F3D138
gone | yum | flakidock n@rds_dbsync | Cannot find a valid baseurl for repo: base/7/x86_64
gone | dnf | recorded | Error: Failed to download metadata for repo 'appstream': Cannot prepare internal mirrorlist: No URLs in mirrorlist
gone | dnf | shipwright 807 | - Status code: 404 for http://mirrors.163.com/centos/8/os/x86_64/repodata/repomd.xml (IP: 59.111.0.251)
gone | yum | shipwright 170 | https://cbs.centos.org/repos/configmanagement7-ansible-24-release/x86_64/os/repodata/repomd.xml: [Errno 14] HTTPS Error 404 - Not Found
gone | apk | recorded | ERROR: http://dl.example.org/alpine/edge/main: No such file or directory
gone | apk | recorded | WARNING: Ignoring http://dl.example.org/alpine/edge/main/x86_64/APKINDEX.tar.gz: No such file or directory
gone | apt | flakidock AngeleToR@docker-mldonkey | W: The repository 'http://deb.debian.org/debian stretch Release' does not have a Release file.
gone | apt | shipwright 1580 | E: The repository 'http://archive.ubuntu.com/ubuntu zesty-backports Release' does no longer have a Release file.
gone | apt | shipwright 1584 | E: The repository 'http://archive.ubuntu.com/ubuntu artful-backports Release' no longer has a Release file.
network | own | a package | Error: could not download org.assertj:assertj-core from https://repo.example.org: Connection timed out
network | own | a package | Error: could not download assert-plus from https://repo.example.org: Connection timed out
network | own | a package | Error: could not download x/localhost-proxy from https://repo.example.org: Connection timed out
network | own | beside a 404 | Get:404 http://deb.debian.org/x⏎curl: (22) 404⏎Error: read ECONNRESET
network | curl | flakidock xetus-oss@docker-ossec-server | curl: (6) Could not resolve host: ossec.wazuh.com
network | curl | shipwright 4536 | curl: (5) Could not resolve proxy: web-proxy.gre.hpecorp.net
network | apt | shipwright 1221 | W: Failed to fetch http://archive.scrapy.org/ubuntu/dists/scrapy/Release.gpg  Could not resolve 'archive.scrapy.org'
network | apt | recorded | W: Failed to fetch http://deb.example.org/debian/dists/bookworm/InRelease  Temporary failure resolving 'deb.example.org'
network | aria2 | recorded | -> [AbstractCommand.cc:789] errorCode=19 CUID#7 - Name resolution for packages.example.org failed:Domain name not found
network | gem | shipwright 311 | Gem::RemoteFetcher::UnknownHostError: no such name
network | Go | recorded | go: github.com/gin-gonic/gin@v1.9.0: Get "https://proxy.example.org/github.com/gin-gonic/gin/@v/v1.9.0.info": dial tcp: lookup proxy.example.org on 10.255.255.53:53: no such host
network | busybox | shipwright 1251 | wget: bad address 'geolite.maxmind.com'
network | wget | shipwright 5377 | Resolving geolite.maxmind.com... failed: Name does not resolve.
network | uv | recorded | cause: failed to lookup address information: Name or service not known
network | Node.js | shipwright 3780 | getaddrinfo ENOTFOUND metrics-api.iopipe.com
network | Node.js | recorded | [cause]: Error: getaddrinfo EAI_AGAIN example.org
network | Mix | flakidock achariam@elyxel | ** (Mix) httpc request failed with: {:failed_connect, [{:to_address, {'github.com', 443}}, {:inet, [:inet], {:tls_alert, 'internal error'}}]}
network | Go | recorded | Error retrieving updates: Get "https://updates.example.org/geoip": dial tcp: lookup updates.example.org on 127.0.0.11:53: server misbehaving
network | Node.js | shipwright 293 | Error: read ECONNRESET
network | Cargo | recorded | failed to connect to index.example.org: Connection refused; class=Os (2)
network | busybox | shipwright 5218 | wget: error getting response: Connection reset by peer
network | undici | recorded | [cause]: SocketError: other side closed
network | git | recorded | fatal: the remote end hung up unexpectedly
network | httpx | recorded | httpx.RemoteProtocolError: peer closed connection without sending complete message body (received 1000 bytes, expected 100000)
network | Git LFS | recorded | batch response: Post "http://lfs.example.org/objects/batch": set tcp 198.51.100.5:49674: use of closed network connection
network | Python | recorded | OSError: [Errno 101] Network is unreachable
network | busybox | musl, strerror(3) | wget: can't connect to remote host (198.51.100.5): Host is unreachable
network | Go | recorded | go: github.com/gorilla/websocket@v1.4.2: dial tcp: lookup proxy.example.org on 192.168.0.1:53: read udp 172.17.0.2:36832->192.168.0.1:53: read: no route to host
network | Go | recorded | go: github.com/davecgh/go-spew@v1.1.1: dial tcp [2001:db8::11]:443: connect: cannot assign requested address
network | NuGet | nopSolutions/nopCommerce#5005 | /usr/share/dotnet/sdk/3.1.401/NuGet.targets(128,5): error :   Resource temporarily unavailable [/src/NopCommerce.sln]
network | NuGet | a public report | error : Resource temporarily unavailable (api.nuget.org:443)
network | apt | shipwright 225 | Unable to connect to 10.41.249.28:8080:
network | svn | shipwright 4272 | svn: E175002: Unable to connect to a repository at URL 'https://shop.ntop.org/svn/ntop/trunk/n2n'
network | curl | recorded | curl: (7) Failed to connect to 2001:db8::5 port 80 after 0 ms: Couldn't connect to server
network | steamcmd | flakidock lancachenet@steamcache-site-license | UpdateUI: skip show logo[----] !!! Fatal Error: Steamcmd needs to be online to update. Please confirm your network connection and try again.
network | pip | recorded | note: This is an issue with network connectivity, not pip.
network | apk | recorded | ERROR: http://dl.example.org/alpine/v3.4/main: temporary error (try again later)
network | uv | recorded | ├─▶ error sending request for url
network | pip | recorded | ERROR: Could not install packages due to an OSError: HTTPConnectionPool(host='packages.example.org', port=443): Max retries exceeded with url: /flask-3.0.0-py3-none-any.whl (Caused by ResponseError('too many 503 error responses'))
network | NuGet | shipwright 1706 | /usr/share/dotnet/sdk/3.1.301/NuGet.targets(128,5): error : Unable to load the service index for source http://nuget.pamirs.com/v3/index.json. [/app/IdentityServer4.Admin.sln]
network | Bundler | shipwright 1465 | Could not fetch specs from https://rubygems.org/
network | Bun | oven-sh/bun#22761 | error: FailedToOpenSocket downloading tarball hono@4.9.7
network | R | flakidock crazycapivara@h3-r | Warning: unable to access index for repository https://mran.microsoft.com/snapshot/2019-04-26/src/contrib:
network | docker | Docker Hub, usage and limits | toomanyrequests: You have reached your unauthenticated pull rate limit. https://www.docker.com/increase-rate-limit
network | R | recorded | cannot open URL 'http://cran.example.org/x': HTTP status was '429 Unknown Error'
network | PHP | recorded | PHP Warning:  copy(http://example.org/x): Failed to open stream: HTTP request failed! in Command line code on line 1
network | Composer | shipwright 1274 | Failed to enable crypto
network | Gradle | shipwright 685 | > Read timed out
network | uv | a public report | ╰─▶ operation timed out
network | busybox | nvidia-holoscan/holohub#1003 | wget: can't connect to remote host (185.199.110.133): Operation timed out
network | Go | shipwright 1268 | go: github.com/BurntSushi/toml@v0.3.1: Get "http://192.168.1.177:8081/github.com/%21burnt%21sushi/toml/@v/v0.3.1.mod": dial tcp 192.168.1.177:8081: i/o timeout
network | npm | recorded | npm ERR! code ERR_SOCKET_TIMEOUT
network | Node.js | recorded | DOMException [TimeoutError]: The operation was aborted due to timeout
network | undici | undici, Errors.md | HeadersTimeoutError: Headers Timeout Error
network | yarn | flakidock konveyor@mig-ui | error Error: https://registry.yarnpkg.com/@patternfly/react-tokens/-/react-tokens-4.11.8.tgz: ESOCKETTIMEDOUT
network | npm | zed-industries/zed#38574 | npm error code EIDLETIMEOUT
network | Python | recorded | TimeoutError: timed out
network | R | recorded | URL 'http://cran.example.org/x': Timeout of 4 seconds was reached
network | a downloader | a public report | failed: timeout (10000ms)
network | docker | zolweb/docker-php7#7 | Get https://registry-1.docker.io/v2/: net/http: request canceled while waiting for connection (Client.Timeout exceeded while awaiting headers)
network | aria2 | recorded | Exception: [AbstractCommand.cc:340] errorCode=2 Timeout.
network | Playwright | recorded | Error: Request to https://cdn.example.org/builds/chromium.zip timed out after 30000ms
network | git | recorded | fatal: unable to access 'http://example.org/a.git/': Operation too slow. Less than 100 bytes/sec transferred the last 4 seconds
network | perl | recorded | 599 Internal Exception Timed out while waiting for socket to become ready for reading
network | npm | flakidock acthtml@egg-vue-spa-ssr-boilerplate | npm ERR! code CERT_HAS_EXPIRED
network | npm | shipwright 4509 | npm ERR! Error: SSL Error: CERT_UNTRUSTED
network | wget | shipwright 4936 | ERROR: The certificate of ‘ccl.northwestern.edu’ has expired.
network | yarn | recorded | error Error: self-signed certificate
network | uv | recorded | cause: invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))
network | wget | flakidock wmkhoo@taintgrind | ERROR: cannot verify sourceware.org's certificate, issued by 'CN=R11,O=Let\'s Encrypt,C=US':
network | sbt | shipwright 3335 | Server access Error: sun.security.validator.ValidatorException: PKIX path building failed: sun.security.provider.certpath.SunCertPathBuilderException: unable to find valid certification path to requested target
network | curl | shipwright 1692 | curl: (35) error:1407742E:SSL routines:SSL23_GET_SERVER_HELLO:tlsv1 alert protocol version
network | wget | wget, src/http.c | Unable to establish SSL connection.
network | apt | shipwright 3003 | W: Failed to fetch https://developer.download.nvidia.com/compute/cuda/repos/ubuntu1404/x86_64/Packages  gnutls_handshake() failed: Handshake failed
network | uv | recorded | cause: tls handshake eof
network | wget | recorded | 2026-11-27 05:03:33 (12.8 MB/s) - Read error at byte 1000/100000 (The TLS connection was non-properly terminated.). Giving up.
network | wget | shipwright 2937 | 2020-06-30 01:24:46 ERROR 403: Forbidden.
network | curl | recorded | curl: (22) The requested URL returned error: 429
network | Maven | shipwright 123 | Failed to transfer file: https://oss.sonatype.org/content/repositories/snapshots/io/swagger/swagger-core/1.5.23-SNAPSHOT/swagger-core-1.5.23-SNAPSHOT.pom. Return code is: 503 , ReasonPhrase:Service Unavailable.
network | pnpm | recorded | ERR_PNPM_FETCH_429  GET http://packages.example.org/express: Too Many Requests - 429
network | apt | shipwright 1136 | E: Failed to fetch http://ppa.launchpad.net/jonathonf/python-3.6/ubuntu/dists/xenial/main/binary-amd64/Packages  403  Forbidden
network | apt | Fastly, which serves deb.debian.org | E: Failed to fetch http://deb.debian.org/debian/dists/bookworm/InRelease  503  backend read error
network | Go | shipwright 2018 | go: cloud.google.com/go@v0.37.4: unexpected status (https://mirrors.aliyun.com/goproxy/cloud.google.com/go/@v/v0.37.4.info): 502 Bad Gateway
network | aiohttp | recorded | aiohttp.client_exceptions.ClientResponseError: 503, message='Service Unavailable', url='http://packages.example.org/x'
network | apt | shipwright 1599 | W: Failed to fetch http://download.fpcomplete.com/ubuntu/dists/trusty/main/binary-amd64/Packages  HttpError403
network | gem | recorded | Unable to download data from http://packages.example.org/ - bad response Forbidden 403 (http://packages.example.org/specs.4.8.gz)
network | GitHub | recorded | {"message":"API rate limit exceeded for 198.51.100.5. (But here's the good news: Authenticated requests get a higher rate limit. Check out the documentation for more details.)"}
network | docker | docs.docker.com, pull limits | toomanyrequests: You have reached your unauthenticated pull rate limit. https://www.docker.com/increase-rate-limit
network | curl | flakidock thanhson1085@swagger-combined | curl: (18) transfer closed with 18417540 bytes remaining to read
network | curl | libcurl-errors(3) | curl: (52) Empty reply from server
network | Node.js | undici, fetch() | TypeError: fetch failed
network | wget | recorded | No data received.
network | git | recorded | error: RPC failed; curl 56 GnuTLS recv error (-9): Error decoding the received TLS packet.
network | git | crazy-max/docker-rtorrent-rutorrent#427 | fatal: early EOF
network | Maven | recorded | [ERROR] Could not transfer artifact com.google.guava:guava:jar:33.0.0-jre from/to central (https://packages.example.org/maven2): Premature end of Content-Length delimited message body (expected: 3,043,380; received: 1,000)
network | Go | recorded | go: github.com/gin-gonic/gin@v1.9.0: Get "http://proxy.example.org/github.com/gin-gonic/gin/@v/v1.9.0.info": EOF
network | Ruby | recorded | /usr/lib/ruby/3.1.0/net/protocol.rb:227:in `rbuf_fill': end of file reached (EOFError)
network | git | crazy-max/docker-rtorrent-rutorrent#427 | 136.2 curl 92 HTTP/2 stream 5 was not closed cleanly: CANCEL (err 8)
network | curl | libcurl-errors(3) | Error in the HTTP2 framing layer
network | Go | recorded | http2: server sent GOAWAY and closed the connection; LastStreamID=1999, ErrCode=NO_ERROR, debug=""
network | Python | recorded | http.client.IncompleteRead: IncompleteRead(1000 bytes read, 99000 more expected)
network | pip | recorded | × Download failed after 6 attempts because not enough bytes were received (1000 bytes/100 kB)
network | apt | shipwright 1753 | E: Failed to fetch https://developer.download.nvidia.com/compute/cuda/repos/ubuntu1804/x86_64/Packages.gz  File has unexpected size (213860 != 185496). Mirror sync in progress? [IP: 152.195.19.142 443]
network | apt | recorded | W: Failed to fetch http://deb.example.org/debian/dists/x/InRelease  Undetermined Error [IP: 198.51.100.5 443]
network | apt | shipwright 2082 | Unknown date format Bad header data [IP: 35.231.52.82 443]
network | busybox | recorded | wget: error getting response
network | bun | recorded | 0: error reading a body from connection
network | docker | shipwright 1088 | failed to register layer: ApplyLayer exit status 1 stdout:  stderr: archive/tar: invalid tar header
network | npm | umputun/remark42#780 | npm WARN tarball tarball data for eslint-config-prettier@6.10.1 (sha512-svTy6zh1ecQojvpbJSgH3aei/Rt7C6i090l5f2WQ4aB05lYHeZIR1qL4wZyyILTbtmnbHP5Yn8MrsOJMGa8RkQ==) seems to be corrupted. Trying one more time.
network | apk | recorded | WARNING: fetching https://dl.example.org/alpine/v3.19/main: Permission denied
network | apt | shipwright 1709 | E: GPG error: http://downloads-distro.mongodb.org dist InRelease: Clearsigned file isn't valid, got 'NODATA' (does the network require authentication?)
network | apt | recorded | E: Release file for http://deb.example.org/dists/stable/InRelease is not valid yet (invalid for another 8h 59min 3s). Updates for this repository will not be applied.
network | apt | recorded | Warning: OpenPGP signature verification failed: http://deb.example.org/debian trixie InRelease: Sub-process /usr/bin/sqv returned an error code (1), error message is: Verifying signature:            Not live until 2026-11-21T08:46:20Z
network | pip | shipwright 4405 | WARNING: Retrying (Retry(total=0, connect=None, read=None, redirect=None, status=None)) after connection broken by 'NewConnectionError('<pip._vendor.urllib3.connection.VerifiedHTTPSConnection object at 0x7f>: Failed to establish a new connection')': /simple/numpy/
network | gzip | shipwright 1131 | gzip: stdin: unexpected end of file⏎tar: Child returned status 1⏎tar: Error is not recoverable: exiting now
network | yarn | shipwright 1198 | error An unexpected error occurred: "https://registry.npm.taobao.org/vue-cli-plugin-i18n/download/vue-cli-plugin-i18n-0.5.2.tgz: unexpected end of file".
network | npm | flakidock acthtml@egg-vue-spa-ssr-boilerplate | npm WARN tar zlib error: unexpected end of file⏎npm ERR! cb() never called!
network | gpg | flakidock dokku@sshcommand | gpg: no valid OpenPGP data found.
network | gpg | shipwright 4764 | gpg: keyserver receive failed: keyserver error
network | gpg | shipwright 2420 | gpgkeys: key 409B6B1796C275462A1703113804BB82D39DC0E3 partially retrieved (probably corrupt)
network | yum | shipwright 63 | failure: repodata/repomd.xml from epel: [Errno 256] No more mirrors to try.⏎http://linuxsoft.cern.ch/internal/yumsnapshot/20190324/epel/7/x86_64/repodata/repomd.xml: [Errno 14] HTTP Error 403 - Forbidden
network | yum | shipwright 2423 | Error: Cannot retrieve metalink for repository: epel. Please verify its path and try again
"""

# The kind is what the line would be without the reason that stands before the row.
HARMLESS = r"""
# A server of the container itself
network | busybox | recorded | wget: can't connect to remote host (127.0.0.1): Connection refused
network | Composer | shipwright 2831 | Cannot access the database: Connection refused (127.0.0.1). Check the host, username and password and try again.
network | Node.js | recorded | Error: connect ECONNREFUSED 127.0.0.1:5432
network | Node.js | recorded | Error: connect ECONNREFUSED ::1:5432
network | Ruby | recorded | -e:1:in `initialize': Connection refused - connect(2) for "localhost" port 9 (Errno::ECONNREFUSED)
network | libpq | shipwright 6 | could not connect to server: Network is unreachable
# A service that the test lacks
network | nc | recorded | nc: getaddrinfo for host "db" port 5432: Name or service not known
network | PyMySQL | PyMySQL, connections.py | pymysql.err.OperationalError: (2003, "Can't connect to MySQL server on 'db' ([Errno 111] Connection refused)")
network | wget | recorded | wget: unable to resolve host address ‘api’
network | curl | recorded | curl: (6) Could not resolve host: db
network | Node.js | recorded | Error: getaddrinfo ENOTFOUND mongo
network | Java | recorded | java.net.UnknownHostException: kafka
network | redis-cli | recorded | Could not connect to Redis at redis:6379: Name or service not known
network | Go | recorded | dial tcp: lookup postgres on 192.0.2.53:53: no such host
# Names and results of tests
network | pytest | recorded | E       AssertionError: assert 'connection timed out' in ''
memory | pytest | recorded | FAILED test_e.py::test_wrapped[OSError: out of memory] - AssertionError: asse...
network | Test::More | shipwright 74 | Connection timed out at /usr/local/lib/perl5/site_perl/5.20.3/LWP/Protocol/http.pm line 50. at t/docker-api.t line 9.
network | Ruby | recorded | -e:1:in `<main>': HTTP status 500 expected 200 (RuntimeError)
network | pytest | recorded | test_net.py::test_connection_refused_is_retried[ECONNREFUSED] PASSED     [ 12%]
network | mocha | recorded | ✓ ETIMEDOUT is retried (9 ms)
network | bun | recorded | (pass) connection refused [0.06ms]
network | Node.js | recorded | code: 'ECONNREFUSED',
# A retry, or something else that goes on
network | pip | shipwright 5162 | WARNING: Retrying (Retry(total=4, connect=None, read=None, redirect=None, status=None)) after connection broken by 'ReadTimeoutError("HTTPConnectionPool(host='mirrors.aliyun.com', port=80): Read timed out. (read timeout=15)")': /pypi/simple/
network | yarn | shipwright 1074 | info There appears to be trouble with your network connection. Retrying...
network | Bun | recorded | warn: FailedToOpenSocket downloading package manifest stripe. Retry 1/5...
network | Cargo | recorded | warning: spurious network error (2 tries remaining): [28] Timeout was reached (download of `ascii v1.0.0` failed to transfer more than 10 bytes in 30s)
network | pnpm | pnpm | WARN  GET https://registry.npmjs.org/negotiator/-/negotiator-1.1.0.tgz error (ECONNRESET). Will retry in 10 seconds. 2 retries left.
network | yum | shipwright 1010 | ftp://ftp.wallawalla.edu/pub/mirrors/epel/6/x86_64/pdns-backend-postgresql-3.1-2.el6.x86_64.rpm: [Errno 14] PYCURL ERROR 6 - "Couldn't resolve host 'ftp.wallawalla.edu'"
network | yum | recorded | 14: curl#6 - "Could not resolve host: packages.example.org; Unknown error"
network | dnf | shipwright 4815 | [MIRROR] ius-release.rpm: Curl error (28): Timeout was reached for https://centos7.iuscommunity.org/ius-release.rpm [Connection timed out after 30001 milliseconds]
network | npm | flakidock acthtml@egg-vue-spa-ssr-boilerplate | npm WARN optional SKIPPING OPTIONAL DEPENDENCY: request to https://registry.npm.taobao.org/arr-diff failed, reason: certificate has expired
network | npm | shipwright 3473 | npm WARN install fatal: unable to access 'http://ikt.pm2.io/ikt.git/': Could not resolve host: ikt.pm2.io
network | node-pre-gyp | shipwright 833 | node-pre-gyp http 403 status code downloading tarball https://mapbox-node-binary.s3.amazonaws.com/sqlite3/v4.0.9/node-v83-linux-x64.tar.gz
network | wget | flakidock emazzotta@docker-nginx-lua | WARNING: The certificate of 'codeload.github.com' is not trusted.
# Quoted text
memory | gcc | flakidock diemol@frontend_testing | 523 |      THROW(Exception::RangeError, "Out of memory");
network | a list of changes | shipwright 4495 | * Skip temporary "No such host is known" error. Pull request #2684 by
memory | gcc | flakidock diemol@frontend_testing | THROW(Exception::RangeError, "Out of memory");
# The user's own settings
network | pip | urllib3, connectionpool.py | Could not fetch URL https://pypi.org/simple/pip/: There was a problem confirming the ssl certificate: HTTPSConnectionPool(host='pypi.org', port=443): Max retries exceeded with url: /simple/pip/ (Caused by SSLError("Can't connect to HTTPS URL because the SSL module is not available.")) - skipping
disk | docker | recorded | unable to find user no space left on device: no matching entries in passwd file
memory | Composer | shipwright 62 | Check https://getcomposer.org/doc/articles/troubleshooting.md#memory-limit-errors for more info on how to handle out of memory errors.
"""

# No pattern matches
ORDINARY = r"""
network | wget | a public report | Reusing existing connection to codeload.github.com:443.
network | curl | shipwright 4028 | SSL certificate verify ok.
network | mono | shipwright | Certificate added: CN=Atos TrustedRoot 2011, O=Atos, C=DE
network | setuptools | flakidock KyubiSystems@Yomiko | copying src/gevent/tests/test__socket_timeout.py -> build/lib.linux-x86_64-cpython-312/gevent/tests
network | tar | shipwright 2680 | node-v14.4.0/test/sequential/test-net-connect-handle-econnrefused.js
network | NuGet | shipwright 2218 | Installing System.Net.NameResolution 4.0.0.
network | Go | shipwright 2376 | database/sql.(*DB).connectionResetter(0xc000446000, 0xbe3060, 0xc000440000)
network | C# | a public report | error CS0117: 'HttpStatusCode' does not contain a definition for 'TooManyRequests'
network | node:test | a public report | ok 3 - answers 429 Too Many Requests after ten calls
network | busybox | shipwright 1057 | -T SEC		Network read timeout is SEC seconds
network | Python | shipwright 2398 | network_timeout: float = 60.0
network | perl | shipwright 4696 | These tests *will* *fail* if you do not have network connectivity. [n] n
network | perl | shipwright 818 | # tcp connect to revoked.grc.com:443 ok
network | apt | shipwright | Get:29 http://httpredir.debian.org/debian/ jessie/main libmpfr4 amd64 3.1.2-2 [527 kB]
network | wget | shipwright 2776 | 2020-06-27 04:29:46 ERROR 501: HTTPS Required.
network | busybox | shipwright 3912 | wget: bad address ''
network | bower | docs of Bower | bower x ENOTFOUND Package x not found
network | Jest | recorded | Error: expected 200 "OK", got 403 "Forbidden"
network | webpack | recorded | Module not found: Error: Can't resolve 'lodash.debounce' in '/app/src'
network | Rollup | shipwright 2318 | Error: Could not resolve './Collection' from src/index.js
network | mocha | recorded | Error: Timeout of 50ms exceeded. For async tests and hooks, ensure "done()" is called; if returning a Promise, ensure it resolves. (/app/test/a.js)
network | Python | recorded | subprocess.TimeoutExpired: Command '['./server', '--port', '8080']' timed out after 30 seconds
network | systemd | recorded | Failed to connect to bus: Host is down
network | docker | recorded | Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?
network | bash | recorded | bash: -c: line 2: unexpected EOF while looking for matching `"'
network | Java | recorded | Exception in thread "main" java.lang.IllegalStateException: port 5432 is out of range at com.example.Main.main(Main.java:503)
network | the shell | recorded | The command failed with exit code 500
network | docker | recorded | lstat /var/lib/docker/overlay2/648fba76c01/merged/w/connection refused: not a directory
memory | PHP | recorded | PHP Fatal error:  Allowed memory size of 8388608 bytes exhausted (tried to allocate 1000001536 bytes) in Command line code on line 1
memory | g++ | GCC | error: cannot allocate an object of abstract type 'Shape'
memory | a game | recorded | player Killed by goblin
memory | configure | recorded | checking for System V shared memory ... found
limits | apt | recorded | E: Could not get lock /var/lib/dpkg/lock-frontend - open (11: Resource temporarily unavailable)
disk | docker | recorded | lstat /var/lib/docker/overlay2/m92x2xlmm22rdin51snuylexk/merged/w/no space left on device: not a directory
gone | apt | shipwright 2330 | W: GPG error: http://repo.percona.com trusty InRelease: The following signatures couldn't be verified because the public key is not available: NO_PUBKEY 9334A25F8507EFA5
gone | apt | shipwright 1350 | W: GPG error: http://archive.ubuntu.com/ubuntu precise Release: The following signatures couldn't be verified because the public key is not available: NO_PUBKEY 40976EAF437D05B5
gone | apk | flakidock | WARNING: Ignoring https://dl-cdn.alpinelinux.org/alpine/v3.16/community: No such file or directory
emulation | dash | recorded | sh: 1: /tmp/arm: Exec format error
network | gzip | shipwright 1063 | 2020-06-18 07:07:58 ERROR 404: Not Found.⏎gzip: stdin: unexpected end of file
network | gpg | flakidock fanout@docker-pushpin | /bin/sh: 1: curl: not found⏎gpg: no valid OpenPGP data found.
network | gpg | flakidock fanout@docker-pushpin | gpg: keyserver receive failed: No dirmngr
network | gpg | shipwright 108 | gpg: keyserver receive failed: No data
"""


def rows(text):
    """Give a test a kind and lines at a time; a line that begins with # is a title."""
    params = [
        pytest.param(kind, line.split("⏎"), id=f"{tool}: {line[:60]}")
        for kind, tool, _, line in (
            line.split(" | ", 3) for line in text.split("\n") if line[:2] not in ("", "# ")
        )
    ]
    return pytest.mark.parametrize(("kind", "lines"), params)


@rows(SUSPICIOUS)
def test_real_line_is_suspicious(kind, lines):
    assert de.suspicion(["first", *lines, "last"])[0] == kind


@rows(HARMLESS + ORDINARY)
def test_line_that_only_looks_like_trouble_is_not(kind, lines):
    assert de.suspicion(["first", *lines, "last"]) == (None, "")


def test_first_line_of_the_first_kind_is_shown():
    lines = ["Error: read ECONNRESET", "old: Cannot fork", "new: Cannot fork"]

    assert de.suspicion(lines) == ("limits", "old: Cannot fork")


def test_cause_comes_before_what_follows_from_it():
    cause = "E: Failed to fetch http://ppa.launchpad.net/x/dists/xenial/Packages  403  Forbidden"
    effect = "W: The repository 'http://ppa.launchpad.net/x xenial' does not have a Release file."

    assert de.suspicion([effect, cause]) == ("network", cause)


# The last words of a failure, and the line that explains it
ERRORS = """
fatal: unable to look up current user -> fatal: unable to look up current user
make: *** [Makefile:2: all] Error 2 -> c.c:1:10: fatal error: a.h: No such file or directory
ERROR: Command errored out with exit status 1: python setup.py egg_info -> ImportError: cannot import name 'Feature'
404  Not Found [IP: 151.101.2.132 80] -> E: Unable to locate package libfoo
npm warn x@1 requires a peer of y@2 -> sh: 1: webpack: not found
debconf: (Can't locate Term/ReadLine.pm) -> python (missing):
localhost : ok=7 changed=4 unreachable=0 failed=1 -> fatal: [localhost]: FAILED! => {}
"""


@table(ERRORS)
def test_line_that_explains_is_shown_and_no_closing_word(row):
    for lines in ([row.then, "text", row.when], [row.when, "text", row.then]):
        assert de.likely_reason(["Step", *lines]) == row.then


def test_first_and_last_line_that_explain_are_shown():
    lines = ["text", "a.c:1: error: one", "a.c:2: error: two", "a.c:3: error: three", "text"]

    assert de.likely_reason(lines) == "a.c:1: error: one … a.c:3: error: three"
    assert de.likely_reason(["text", "end"]) == "end"
    assert de.likely_reason([]) == "no output"


# An exit code and its command, and what that points to
QUIET = r"""
4 apt-get install -y wget && wget -q https://a.b/c -> network
6 set -e\ncurl -s https://a.b/c -> network
4 wget \"$URL\" -> network
23 curl -sSLo /x https://a.b/c -> disk
23 curl -s https://a.b/c --output /x -> disk
23 curl -s https://a.b/c \| tar x -> None
23 curl -o /no/x https://a.b/c\nWarning: Failed to create the file /no/x: No such file -> None
8 wget -q https://a.b/c -> None
4 make -> None
6 dpkg -i libcurl4.deb -> None
5 apt-get install -y wget git && pytest -> None
7 curl -s localhost:8080 -o /x -> None
6 curl $URL\ncurl: (6) Could not resolve host: NAME -> None
"""


@table(QUIET)
def test_exit_code_of_a_quiet_download_is_suspicious(row):
    code, _, command = row.when.partition(" ")

    assert str(de.failed_download(int(code), command)[0]) == row.then


def failed_run(command, *output, others=()):
    """Return a build whose RUN failed."""
    error = f'process "{command}" did not complete successfully: exit code: 1'
    step = de.Step(de.INSTRUCTION, "RUN x")
    return de.Build(
        1, de.BUILDKIT, step, error=error, run_code=1, output=output, other_output=others
    )


# What a RUN and other steps printed, and the suspicion. Only the closing words of another step count;
# old runc points to emulation only if it started a shell.
BUILDS = r"""
old runc starts a shell -> emulation
    command: /bin/sh -c make
    output: ["standard_init_linux.go:190: exec user process caused \"exec format error\""]
old runc starts a script -> None
    output: ["standard_init_linux.go:190: exec user process caused \"exec format error\""]
another step reports the network -> None
    others: ["Error: read ECONNRESET"]
another step ends with the network -> network
    others: ["W: The repository 'http://a.b x Release' does not have a Release file.", "W: Failed to fetch http://a.b/dists/x/InRelease  Temporary failure resolving 'a.b'"]
"""


@table(BUILDS, command="/x", output=[], others=[])
def test_suspicion_of_a_build(row):
    build = failed_run(row.command, *row.output, others=row.others)

    assert str(de.build_suspicion(build)[0]) == row.then


def test_full_disk_that_a_step_of_a_good_build_ignored_is_suspicious():
    line = "dd: error writing '/data/3': No space left on device"

    assert de.build_suspicion(de.Build(0, de.BUILDKIT, other_output=[line])) == ("disk", line)


# What a RUN printed
HINTS = r"""
exec /x.sh: exec format error -> #!/bin/sh
exec /x.sh: no such file or directory -> carriage return
/bin/bash: ./x.sh: /bin/sh^M: bad interpreter: No such file -> carriage return
/usr/bin/env: ‘bash\r’: No such file or directory -> carriage return
sh: ./x.sh: not found -> carriage return
/bin/sh: 1: x.sh: not found -> no hint
cat: /x.sh: No such file or directory -> no hint
# of a foreign image
exec /bin/sh: exec format error -> no hint
    command: /bin/sh -c make
"""


@table(HINTS, command="/x.sh")
def test_hint_of_a_script_that_cannot_be_started(row):
    options = de.Options("Dockerfile", "repo", context=".")

    hint = de.build_hint(de.FailedBuild(None, options, "FROM x", failed_run(row.command, row.when)))

    assert row.then in (hint or "no hint")


ADDRESSES = """
nginx: [emerg] bind() to [::1]:80 failed (99: Cannot assign requested address)
httpd: bind: Address not available
Error: listen EADDRNOTAVAIL: address not available ::1:8080
nginx: [emerg] socket() [::]:80 failed (97: Address family not supported by protocol)
"""


@pytest.mark.parametrize("line", ADDRESSES.strip().split("\n"))
def test_failed_tests_that_miss_an_address_give_one_warning(fake, score, line):
    failing, passing = (run_command(f"echo '{line}'; exit {code}") for code in (1, 0))

    (warning,) = score(failing, failing)["warnings"]

    assert "IPv6" in warning
    assert score(passing)["warnings"] == []
