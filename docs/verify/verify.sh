#!/bin/sh
# Verifies Palisade sequencers offline, with OpenSSL 3 and a shell.
#
#     verify.sh KEYS.json CLUSTER LOCK < sequencers
#
# KEYS.json is what http://NODE:7170/.well-known/jwks.json serves, CLUSTER the cluster's id. For each line of the input it
# prints the token, or "refused" and why. Then compare the token with your mark, in one step with the write.
#
# A shell reads no JSON, so this insists on the bytes as the cluster writes them. Locks with a quote, a backslash or a
# control character in their name are refused.
set -eu
export LC_ALL=C

keys=$1 cluster=$2 lock=$3
case $lock in *[\"\\]*) echo "a lock name that this script cannot read" >&2; exit 2 ;; esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# base64url, of a text that may lack its padding, to bytes.
decode() {
    padded=$(printf %s "$1" | tr -- '-_' '+/')
    while [ $((${#padded} % 4)) -ne 0 ]; do padded=$padded=; done
    printf '%s\n' "$padded" | openssl base64 -d -A
}

encode() { openssl base64 -A | tr -d = | tr -- '+/' '-_'; }

# The public key of an id, as OpenSSL reads it: a fixed beginning and 32 bytes.
public_key() {
    x=$(tr -d ' \n' < "$keys" | tr '{}' '\n\n' | grep -F "\"kid\":\"$1\"" | sed -n 's/.*"x":"\([A-Za-z0-9_-]\{43\}\)".*/\1/p')
    [ -n "$x" ] || return 1
    { printf '\060\052\060\005\006\003\053\145\160\003\041\000'; decode "$x"; } > "$work/key.der"
}

refused() { echo "refused: $1"; }

check() {
    header=${1%%.*} rest=${1#*.}
    claims=${rest%%.*} signature=${rest#*.}
    case $1 in *[!A-Za-z0-9_.-]*) refused "not a sequencer"; return ;; esac
    # Decoders are lenient about the last character; one text is to stand for one sequencer.
    decode "$signature" > "$work/signature" 2> /dev/null || { refused "not base64"; return; }
    [ "$(encode < "$work/signature")" = "$signature" ] || { refused "not canonical"; return; }

    head=$(decode "$header" 2> /dev/null | tr -d '\0') || { refused "not base64"; return; }
    kid=${head#'{"alg":"EdDSA","typ":"palisade-sequencer+jwt","kid":"'}
    [ "$kid" != "$head" ] || { refused "not a sequencer"; return; }
    kid=${kid%'"}'}
    case $kid in *[!A-Za-z0-9_-]*) refused "not a sequencer"; return ;; esac
    public_key "$kid" || { refused "unknown key: fetch the keys again, rate-limited"; return; }

    printf %s "$header.$claims" > "$work/input"
    openssl pkeyutl -verify -pubin -keyform DER -inkey "$work/key.der" -rawin -in "$work/input" \
        -sigfile "$work/signature" > /dev/null 2>&1 || { refused "forged"; return; }

    body=$(decode "$claims")
    rest=${body#"{\"iss\":\"palisade:$cluster\",\"inc\":\""}
    [ "$rest" != "$body" ] || { refused "a sequencer of another cluster"; return; }
    rest=${rest#*\"}
    token=${rest#",\"sub\":\"$lock\",\"slot\":0,\"mode\":\"x\",\"token\":"}
    [ "$token" != "$rest" ] || { refused "a sequencer of another lock, slot or mode"; return; }
    echo "${token%%,*}"
}

while IFS= read -r line; do check "$line"; done
