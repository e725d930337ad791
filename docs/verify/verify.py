#!/usr/bin/env python3
"""Verifies Palisade sequencers offline, with PyJWT and cryptography.

    verify.py KEYS.json CLUSTER LOCK < sequencers

KEYS.json is what http://NODE:7170/.well-known/jwks.json serves, CLUSTER the cluster's id. For each line of the input it
prints the token, or "refused" and why. Then compare the token with your mark, in one step with the write.
"""

import base64
import json
import sys

import jwt


class Verifier:
    def __init__(self, jwks, cluster):
        keys = [key for key in jwks["keys"] if key.get("kty") == "OKP" and key.get("crv") == "Ed25519"]
        self.keys = {key["kid"]: jwt.PyJWK(key, algorithm="EdDSA").key for key in keys}
        self.issuer = f"palisade:{cluster}"

    def token(self, text, lock):
        """The token of a genuine sequencer of this lock; ValueError for anything else."""
        # Decoders are lenient about the signature's last character; one text is to stand for one sequencer.
        signature = text.rpartition(".")[2]
        decoded = base64.urlsafe_b64decode(signature + "=" * (-len(signature) % 4))
        if base64.urlsafe_b64encode(decoded).rstrip(b"=").decode() != signature:
            raise ValueError("the signature is not canonical")
        header = jwt.get_unverified_header(text)
        if header.get("typ") != "palisade-sequencer+jwt":
            raise ValueError("not a sequencer")
        key = self.keys.get(header.get("kid"))
        if key is None:
            raise ValueError("unknown key: fetch the keys again, rate-limited")
        # There is no exp, nbf, iat or aud in a sequencer, and nothing is made of a clock.
        claims = jwt.decode(text, key, algorithms=["EdDSA"], issuer=self.issuer)
        if claims["sub"] != lock:
            raise ValueError("a sequencer of another lock")
        if claims["slot"] != 0 or claims["mode"] != "x":
            raise ValueError("not an exclusive holder of slot 0")
        token = claims["token"]
        if type(token) is not int or not 1 <= token <= 2**53 - 1:
            raise ValueError("not a token")
        return token


def main():
    path, cluster, lock = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        verifier = Verifier(json.load(file), cluster)
    for line in sys.stdin:
        try:
            print(verifier.token(line.rstrip("\n"), lock))
        except (ValueError, KeyError, jwt.PyJWTError) as error:
            print("refused:", error)


if __name__ == "__main__":
    main()
