package org.flashmob.app;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URL;
import org.json.JSONException;

/** Asks the node on this device how it is. Blocks, shortly. */
final class StatusClient {
    private static final int TIMEOUT_MS = 2_000;
    /** A status with 64 links has some hundred KiB. */
    private static final int ANSWER_BYTES_MAX = 4 << 20;

    private StatusClient() {}

    static NodeStatus ask(int adminPort) throws IOException, JSONException {
        URL url = new URL("http://127.0.0.1:" + adminPort + "/status");
        // Never by a proxy that the Wi-Fi network may name.
        HttpURLConnection connection = (HttpURLConnection) url.openConnection(java.net.Proxy.NO_PROXY);
        connection.setConnectTimeout(TIMEOUT_MS);
        connection.setReadTimeout(TIMEOUT_MS);
        try (InputStream in = connection.getInputStream()) {
            ByteArrayOutputStream answer = new ByteArrayOutputStream();
            byte[] buffer = new byte[16 << 10];
            int length = in.read(buffer);
            while (length >= 0) {
                answer.write(buffer, 0, length);
                if (answer.size() > ANSWER_BYTES_MAX) {
                    throw new IOException("the node's status is longer than " + ANSWER_BYTES_MAX + " bytes");
                }
                length = in.read(buffer);
            }
            return NodeStatus.parse(answer.toString("UTF-8"));
        } finally {
            connection.disconnect();
        }
    }
}
