package org.flashmob.app;

import android.content.Context;
import java.io.File;

/** Where the node's parts are and what it listens on. Tests put others in their place; the app never does. */
class Surroundings {
    private static Surroundings replacement;

    private final Context context;

    Surroundings(Context context) {
        this.context = context.getApplicationContext();
    }

    static Surroundings of(Context context) {
        return replacement != null ? replacement : new Surroundings(context);
    }

    static void replaceForTest(Surroundings other) {
        replacement = other;
    }

    /** In the folder of native libraries, the only one that an app may run programs from since Android 10. */
    File binary() {
        return new File(context.getApplicationInfo().nativeLibraryDir, "libflashmob.so");
    }

    final File folder() {
        return context.getFilesDir();
    }

    final File data() {
        return new File(folder(), "extent.bin");
    }

    /** Who the extent is; made by the node. */
    final File identity() {
        return new File(folder(), "extent.bin.flashmob");
    }

    /** The node's own key, once it was enrolled; made by the node. */
    final File key() {
        return new File(folder(), "extent.bin.key");
    }

    /** Checksums of the extent; made by the node, for a volume with copies. */
    final File checksums() {
        return new File(folder(), "extent.bin.sums");
    }

    final File deviceState() {
        return new File(folder(), "device-state.json");
    }

    long freeBytes() {
        return folder().getUsableSpace();
    }

    long totalBytes() {
        return folder().getTotalSpace();
    }

    int listenPort() {
        return NodeCommand.LISTEN_PORT;
    }

    int adminPort() {
        return NodeCommand.ADMIN_PORT;
    }

    Supervisor.Pace pace() {
        return new Supervisor.Pace();
    }

    Signals signals() {
        return new Signals();
    }

    final boolean hasData() {
        return data().exists();
    }
}
