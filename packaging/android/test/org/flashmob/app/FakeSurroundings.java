package org.flashmob.app;

import android.content.Context;
import java.io.File;
import java.io.IOException;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;

/** The fake node in the place of the bundled one, on a port of the kernel's choice, and little patience. */
final class FakeSurroundings extends Surroundings {
    final File folder;
    long freeBytes = 40L << 30;
    long totalBytes = 64L << 30;
    private final int adminPort;
    private final int listenPort;
    private File binary;

    FakeSurroundings(Context context, String mode) throws IOException {
        super(context);
        folder = Files.createTempDirectory("flashmob-app").toFile();
        binary = new File(folder, "fake-node");
        Files.copy(new File(System.getProperty("flashmob.fakeNode")).toPath(), binary.toPath());
        if (!binary.setExecutable(true)) {
            throw new IOException("not made executable: " + binary);
        }
        mode(mode);
        try (ServerSocket admin = new ServerSocket(0); ServerSocket listen = new ServerSocket(0)) {
            adminPort = admin.getLocalPort();
            listenPort = listen.getLocalPort();
        }
    }

    /** Another program in the place of the fake. */
    void program(File other) {
        binary = other;
    }

    void mode(String mode) throws IOException {
        Files.write(new File(folder, "mode").toPath(), mode.getBytes(StandardCharsets.UTF_8));
    }

    /** What the fake noted: "starts" or "ends". */
    List<String> notes(String name) {
        try {
            return Files.readAllLines(new File(folder, name).toPath());
        } catch (IOException e) {
            return new ArrayList<>();
        }
    }

    @Override
    File binary() {
        return binary;
    }

    @Override
    long freeBytes() {
        return freeBytes;
    }

    @Override
    long totalBytes() {
        return totalBytes;
    }

    @Override
    int adminPort() {
        return adminPort;
    }

    @Override
    int listenPort() {
        return listenPort;
    }

    @Override
    Supervisor.Pace pace() {
        Supervisor.Pace pace = new Supervisor.Pace();
        pace.backoffFirstMs = 20;
        pace.backoffMostMs = 100;
        pace.killAfterMs = 1_000;
        pace.failuresMax = 3;
        return pace;
    }

    @Override
    Signals signals() {
        return new Signals() {
            @Override
            void send(int pid, int signal) {
                // Robolectric's Process.sendSignal sends none.
                try {
                    new ProcessBuilder("kill", "-" + signal, Integer.toString(pid)).start().waitFor();
                } catch (IOException | InterruptedException e) {
                    throw new IllegalStateException(e);
                }
            }
        };
    }
}
