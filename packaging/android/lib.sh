# What build, verify and test share: where things are, and fetching what they need.
# shellcheck shell=bash
set -euo pipefail

ANDROID=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(cd "$ANDROID/../.." && pwd)
TARGET=${CARGO_TARGET_DIR:-$ROOT/target}
mkdir -p "$TARGET/android"
TARGET=$(cd "$TARGET" && pwd)
OUT=$TARGET/android
PARTS=$OUT/parts
APK=$OUT/flashmob.apk
ANDROID_JAR=$PARTS/build/android-all-14-robolectric-10818077.jar
R8_JAR=$PARTS/build/r8-8.13.19.jar
MIN_SDK=21
TARGET_SDK=34
# The folder of an APK for each architecture of `make cross`.
declare -A ABI=([aarch64]=arm64-v8a [armv7]=armeabi-v7a)

say() { printf '%s\n' "$*"; }
die() { printf 'android: %s\n' "$*" >&2; exit 1; }

# fetch PROFILE: the jars of that profile of pom.xml in $PARTS/PROFILE, each as checksums.sha256 says.
fetch() {
    local profile=$1 log=$OUT/fetch-$1.log copy=org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies
    fetched "$profile" && return
    command -v mvn >/dev/null || die "mvn is not installed (Debian: maven)"
    say "fetching what '$profile' needs (once)"
    # What is there is wrong, and Maven would leave it.
    rm -rf "${PARTS:?}/$profile"
    # Google's own repository only for what Maven Central does not have.
    mvn --quiet --batch-mode --file "$ANDROID/pom.xml" --activate-profiles "$profile" "$copy" -DoutputDirectory="$PARTS/$profile" >"$log" 2>&1 ||
        mvn --quiet --batch-mode --file "$ANDROID/pom.xml" --activate-profiles "$profile,google" "$copy" -DoutputDirectory="$PARTS/$profile" >>"$log" 2>&1 ||
        { tail -5 "$log" >&2; die "'$profile' could not be fetched; a network with Maven Central is needed once"; }
    fetched "$profile" || die "what was fetched for '$profile' is not what $ANDROID/checksums.sha256 says"
}

fetched() {
    local sums
    sums=$(grep -F " $1/" "$ANDROID/checksums.sha256") || die "no checksums for '$1'"
    [ -d "$PARTS/$1" ] && (cd "$PARTS" && sha256sum --check --quiet --status <<<"$sums")
}

# resources: compiles them; $OUT/resources.apk, and R.java in $OUT/gen.
resources() {
    rm -rf "$OUT/gen" "$OUT/resources.zip" "$OUT/resources.apk"
    mkdir -p "$OUT/gen"
    aapt2 compile --dir "$ANDROID/res" -o "$OUT/resources.zip"
    # Debian's aapt2 does not know <property>, which Android 14 wants, and says so as a warning; a chunk of Android 14's resources it skips.
    aapt2 link --warn-manifest-validation -I "$ANDROID_JAR" --manifest "$ANDROID/AndroidManifest.xml" --java "$OUT/gen" \
        --min-sdk-version $MIN_SDK --target-sdk-version $TARGET_SDK --version-code "$(version_code)" --version-name "$(version_name)" \
        -o "$OUT/resources.apk" "$OUT/resources.zip" 2>"$OUT/aapt2.log" || { cat "$OUT/aapt2.log" >&2; die "the resources do not link"; }
    if grep -v -e 'Unknown chunk type' -e 'unexpected element <property>' "$OUT/aapt2.log" >&2; then die 'aapt2 warned of the above'; fi
}

# classes: compiles the app's sources into $OUT/classes.
classes() {
    rm -rf "$OUT/classes"
    mkdir -p "$OUT/classes"
    find "$ANDROID/src" "$OUT/gen" -name '*.java' -print0 |
        xargs -0 javac --release 8 -Xlint:all,-options,-processing,-classfile,-deprecation -Werror -encoding UTF-8 -cp "$ANDROID_JAR" -d "$OUT/classes" 2> >(grep -v '^Note:' >&2)
}

# The JDK's folder: Android's jar has no java.lang, and the byte code's compiler wants to see it.
java_home() { java -XshowSettings:properties -version 2>&1 | sed -n 's/^ *java.home = //p'; }

version_name() { sed -n '/^\[workspace.package\]/,/^\[/s/^version *= *"\(.*\)"/\1/p' "$ROOT/Cargo.toml"; }

# 1.2.3 as 10203; Android compares it to tell an update.
version_code() { version_name | awk -F '[.-]' '{ print $1 * 10000 + $2 * 100 + $3 }'; }
