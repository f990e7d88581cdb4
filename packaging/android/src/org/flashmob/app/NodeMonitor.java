package org.flashmob.app;

import java.util.LinkedHashSet;
import java.util.Set;

/** Where the service leaves what it knows and the screen finds it; both live in one process. To be used on the main thread, but for {@link #isWatched}. */
final class NodeMonitor {
    interface Listener {
        void onSnapshot(Snapshot snapshot);
    }

    private static final NodeMonitor INSTANCE = new NodeMonitor();

    private final Set<Listener> listeners = new LinkedHashSet<>();
    private Snapshot latest = Snapshot.STOPPED;
    private boolean watched;

    static NodeMonitor get() {
        return INSTANCE;
    }

    Snapshot latest() {
        return latest;
    }

    void add(Listener listener) {
        listeners.add(listener);
        listener.onSnapshot(latest);
    }

    void remove(Listener listener) {
        listeners.remove(listener);
    }

    void show(Snapshot snapshot) {
        latest = snapshot;
        for (Listener listener : listeners.toArray(new Listener[0])) {
            listener.onSnapshot(snapshot);
        }
    }

    /** Whether somebody looks: the node is then asked every second. */
    synchronized boolean isWatched() {
        return watched;
    }

    synchronized void setWatched(boolean watched) {
        this.watched = watched;
    }
}
