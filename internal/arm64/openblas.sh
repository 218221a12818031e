# fetch_openblas DIR: OpenBLAS for arm64 and what it needs, of Debian's packages, in DIR/root; nothing is installed.
fetch_openblas() {
	local apt="-oAPT::Architecture=arm64 -oAPT::Architectures=arm64 -oAPT::Sandbox::User= -oDir::State::Lists=$1/lists
		-oDir::State::status=$1/status -oDir::Cache=$1/cache"
	mkdir -p "$1/lists/partial" "$1/cache/archives/partial" "$1/packages"
	touch "$1/status"
	apt-get $apt update -qq
	(cd "$1/packages" && apt-get $apt download -qq libc6 libgcc-s1 libgfortran5 libopenblas0-pthread)
	for package in "$1"/packages/*.deb; do dpkg -x "$package" "$1/root"; done
	library=/usr/lib/aarch64-linux-gnu/openblas-pthread
}
