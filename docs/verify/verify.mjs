#!/usr/bin/env node
// Verifies Palisade sequencers offline, with nothing but Node's own modules.
//
//     node verify.mjs KEYS.json CLUSTER LOCK < sequencers
//
// KEYS.json is what http://NODE:7170/.well-known/jwks.json serves, CLUSTER the cluster's id. For each line of the input it
// prints the token, or "refused" and why. Then compare the token with your mark, in one step with the write.

import { createPublicKey, verify } from "node:crypto";
import { readFileSync } from "node:fs";

export class Verifier {
  constructor(jwks, cluster) {
    const usable = jwks.keys.filter((key) => key.kty === "OKP" && key.crv === "Ed25519");
    this.keys = new Map(usable.map((jwk) => [jwk.kid, createPublicKey({ key: jwk, format: "jwk" })]));
    this.issuer = `palisade:${cluster}`;
  }

  /** The token of a genuine sequencer of this lock; throws for anything else. */
  token(text, lock) {
    const parts = text.split(".");
    if (parts.length !== 3) throw new Error("not three parts");
    // Decoders are lenient; one text is to stand for one sequencer.
    const [header, claims, signature] = parts.map((part) => {
      const bytes = Buffer.from(part, "base64url");
      if (bytes.toString("base64url") !== part) throw new Error("not canonical");
      return bytes;
    });
    const { alg, typ, kid } = JSON.parse(header);
    if (alg !== "EdDSA" || typ !== "palisade-sequencer+jwt") throw new Error("not a sequencer");
    const key = this.keys.get(kid);
    if (!key) throw new Error("unknown key: fetch the keys again, rate-limited");
    if (!verify(null, Buffer.from(`${parts[0]}.${parts[1]}`), key, signature)) throw new Error("forged");
    const { iss, sub, slot, mode, token } = JSON.parse(claims);
    if (iss !== this.issuer) throw new Error("a sequencer of another cluster");
    if (sub !== lock) throw new Error("a sequencer of another lock");
    if (slot !== 0 || mode !== "x") throw new Error("not an exclusive holder of slot 0");
    if (!Number.isSafeInteger(token) || token < 1) throw new Error("not a token");
    return token;
  }
}

const [path, cluster, lock] = process.argv.slice(2);
const verifier = new Verifier(JSON.parse(readFileSync(path, "utf8")), cluster);
for (const line of readFileSync(0, "utf8").split("\n").filter((line) => line !== "")) {
  try {
    console.log(verifier.token(line, lock));
  } catch (error) {
    console.log(`refused: ${error.message}`);
  }
}
