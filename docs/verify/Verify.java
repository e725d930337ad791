// Verifies Palisade sequencers offline, with nothing but the standard library of Java 15 or newer.
//
//     java Verify.java KEYS.json CLUSTER LOCK < sequencers
//
// KEYS.json is what http://NODE:7170/.well-known/jwks.json serves, CLUSTER the cluster's id. For each line of the input it
// prints the token, or "refused" and why. Then compare the token with your mark, in one step with the write.
//
// The standard library reads no JSON, so this insists on the bytes as the cluster writes them; in a service, use the JSON
// library that you have.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.PublicKey;
import java.security.Signature;
import java.security.spec.X509EncodedKeySpec;
import java.util.Base64;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

public final class Verify {
    private static final byte[] ED25519 = HexFormat.of().parseHex("302a300506032b6570032100");
    private static final Pattern HEADER =
        Pattern.compile("\\{\"alg\":\"EdDSA\",\"typ\":\"palisade-sequencer\\+jwt\",\"kid\":\"([A-Za-z0-9_-]+)\"}");

    private final Map<String, PublicKey> keys = new HashMap<>();
    private final String cluster;

    Verify(String jwks, String cluster) throws GeneralSecurityException {
        this.cluster = cluster;
        Matcher entries = Pattern.compile("\\{[^{}]*\"kty\"[^{}]*}").matcher(jwks);
        while (entries.find()) {
            String key = entries.group();
            if (!"Ed25519".equals(field(key, "crv"))) {
                continue;
            }
            byte[] x = Base64.getUrlDecoder().decode(field(key, "x"));
            byte[] der = new byte[ED25519.length + x.length];
            System.arraycopy(ED25519, 0, der, 0, ED25519.length);
            System.arraycopy(x, 0, der, ED25519.length, x.length);
            PublicKey known = KeyFactory.getInstance("Ed25519").generatePublic(new X509EncodedKeySpec(der));
            keys.put(field(key, "kid"), known);
        }
    }

    private static String field(String object, String name) {
        Matcher field = Pattern.compile("\"" + name + "\"\\s*:\\s*\"([^\"]*)\"").matcher(object);
        return field.find() ? field.group(1) : "";
    }

    /** Decoders are lenient about the last character; one text is to stand for one sequencer. */
    private static byte[] decode(String part) {
        byte[] bytes = Base64.getUrlDecoder().decode(part);
        if (!Base64.getUrlEncoder().withoutPadding().encodeToString(bytes).equals(part)) {
            throw new IllegalArgumentException("not canonical");
        }
        return bytes;
    }

    /** The token of a genuine sequencer of this lock. */
    long token(String text, String lock) throws GeneralSecurityException {
        String[] parts = text.split("\\.", -1);
        if (parts.length != 3) {
            throw new IllegalArgumentException("not three parts");
        }
        Matcher header = HEADER.matcher(new String(decode(parts[0]), StandardCharsets.UTF_8));
        if (!header.matches()) {
            throw new IllegalArgumentException("not a sequencer");
        }
        PublicKey key = keys.get(header.group(1));
        if (key == null) {
            throw new IllegalArgumentException("unknown key: fetch the keys again, rate-limited");
        }
        Signature signature = Signature.getInstance("Ed25519");
        signature.initVerify(key);
        signature.update((parts[0] + "." + parts[1]).getBytes(StandardCharsets.US_ASCII));
        if (!signature.verify(decode(parts[2]))) {
            throw new IllegalArgumentException("forged");
        }
        String expected = "{\"iss\":\"palisade:" + cluster + "\",\"inc\":\"";
        String claims = new String(decode(parts[1]), StandardCharsets.UTF_8);
        if (!claims.startsWith(expected)) {
            throw new IllegalArgumentException("a sequencer of another cluster");
        }
        Pattern rest = Pattern.compile("[0-9a-f]{32}\"," + Pattern.quote("\"sub\":\"" + lock + "\"")
            + ",\"slot\":0,\"mode\":\"x\",\"token\":([1-9][0-9]{0,15}),.*");
        Matcher matcher = rest.matcher(claims.substring(expected.length()));
        if (!matcher.matches()) {
            throw new IllegalArgumentException("a sequencer of another lock, slot or mode");
        }
        return Long.parseLong(matcher.group(1));
    }

    public static void main(String[] arguments) throws Exception {
        Verify verifier = new Verify(Files.readString(Path.of(arguments[0])), arguments[1]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            try {
                System.out.println(verifier.token(line, arguments[2]));
            } catch (IllegalArgumentException | GeneralSecurityException error) {
                System.out.println("refused: " + error.getMessage());
            }
        }
    }
}
