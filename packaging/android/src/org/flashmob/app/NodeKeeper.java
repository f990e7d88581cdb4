package org.flashmob.app;

import android.content.Context;
import android.os.Handler;
import android.os.Looper;
import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.net.Inet4Address;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.ArrayDeque;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import org.json.JSONException;

/**
 * Keeps the node as it is wanted: does what {@link Supervisor} decides, on one thread of its own, where everything that blocks is.
 * What comes of it goes to {@link NodeMonitor}.
 */
final class NodeKeeper implements Supervisor.Hands {
    private static final long LOOK_MS_MIN = 20;
    private static final long LOOK_STARTING_MS = 250;
    private static final long LOOK_WATCHED_MS = 1_000;
    /** With nobody looking it is only for the number of gateways in the notification. */
    private static final long LOOK_UNWATCHED_MS = 15_000;
    /** The node believes a device's state for 60 s. */
    private static final long STATE_EVERY_MS = 20_000;
    private static final long LEFTOVER_PATIENCE_MS = 20_000;
    private static final int HISTORY_POINTS = 60;
    private static final int LOG_LINES_SHOWN = 40;
    private static final int LOG_LINES_OF_DEATH = 12;

    private final Context context;
    private final Surroundings surroundings;
    private final Preferences preferences;
    private final ScheduledExecutorService thread = Executors.newSingleThreadScheduledExecutor(work -> new Thread(work, "node-keeper"));
    private final Handler main = new Handler(Looper.getMainLooper());
    private final Supervisor supervisor;
    private final LogTail log = new LogTail();
    private final ArrayDeque<Float> history = new ArrayDeque<>();
    private ScheduledFuture<?> next;
    private NodeProcess process;
    private NodeStatus status;
    private Rates rates = Rates.NONE;
    private DeviceState device = new DeviceState();
    private boolean leftoversEnded;
    private int starts;
    private volatile boolean closed;
    private long stateWrittenMs = Long.MIN_VALUE / 2;

    NodeKeeper(Context context, Surroundings surroundings) {
        this.context = context;
        this.surroundings = surroundings;
        this.preferences = new Preferences(context);
        this.supervisor = new Supervisor(surroundings.pace(), this);
    }

    /** What the device is like now comes along, for a node that must pause is not to be started first. */
    void start(DeviceState state, Supervisor.Hold hold) {
        run(() -> {
            starts++;
            device = state;
            supervisor.hold(hold, nowMs());
            supervisor.start(nowMs());
        });
    }

    /** Settings changed that a running node takes up only at its start. */
    void restart() {
        run(() -> supervisor.restart(nowMs()));
    }

    void stop() {
        run(() -> supervisor.stop(nowMs()));
    }

    /** Something about the device changed, and with it perhaps whether it may serve. */
    void deviceChanged(DeviceState state, Supervisor.Hold hold) {
        run(() -> {
            device = state;
            writeDeviceState();
            supervisor.hold(hold, nowMs());
        });
    }

    /** Somebody began to look, or something on the screen was changed. */
    void look() {
        run(() -> {});
    }

    /** Nothing is started or told any more; a node that still runs is ended without waiting for it. On the main thread. */
    void close() {
        closed = true;
        thread.execute(() -> {
            if (next != null) {
                next.cancel(false);
            }
            if (process != null) {
                process.terminate();
            }
        });
        thread.shutdown();
    }

    @Override
    public void spawn() {
        status = null;
        try {
            if (!leftoversEnded) {
                Leftovers.end(new File("/proc"), surroundings.binary().getPath(), surroundings.signals(), LEFTOVER_PATIENCE_MS);
                leftoversEnded = true;
            }
            writeDeviceState();
            String link = Enrolment.link();
            String input = invitation(link);
            process = NodeProcess.start(
                    NodeCommand.of(surroundings.binary(), surroundings.data(), sizeBytes(), surroundings.listenPort(),
                            surroundings.adminPort(), surroundings.deviceState(), preferences.name(), joinAddress(), !preferences.areKeysWanted(), input != null),
                    surroundings.folder(), surroundings.signals(), input, new NodeProcess.Listener() {
                        @Override
                        public void onLine(String line) {
                            Enrolment.heard(link, line);
                            log.add(line);
                        }

                        @Override
                        public void onEnd(int exitStatus) {
                            run(() -> ended(context.getString(Death.sentence(exitStatus, log.last(LOG_LINES_OF_DEATH)), exitStatus)));
                        }
                    });
        } catch (IOException e) {
            log.add(String.valueOf(e.getMessage()));
            ended(context.getString(Death.sentence(e)));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            ended(context.getString(R.string.death_not_started));
        }
    }

    @Override
    public void terminate() {
        if (process != null) {
            process.terminate();
        }
    }

    @Override
    public void kill() {
        log.add(context.getString(R.string.log_killed));
        if (process != null) {
            process.kill();
        }
    }

    private void ended(String death) {
        process = null;
        status = null;
        rates = Rates.NONE;
        supervisor.ended(death, nowMs());
    }

    /** An extent that is there keeps its size. */
    private long sizeBytes() {
        return surroundings.hasData() ? surroundings.data().length() : preferences.sizeBytes();
    }

    /** HOST:PORT with the name looked up here, since a static binary has no name service on Android; null for none. */
    private String joinAddress() {
        try {
            JoinAddress join = JoinAddress.parse(preferences.join());
            return join.isNumeric() ? join.toString() : join.at(addressOf(join.host));
        } catch (UnknownHostException e) {
            log.add(context.getString(R.string.log_gateway_unknown, preferences.join()));
            return null;
        } catch (JoinAddress.BadAddress e) {
            // None was given; the screen lets no bad one in.
            return null;
        }
    }

    /** The link with its name looked up here; null without one. */
    private String invitation(String link) {
        if (link == null) {
            return null;
        }
        try {
            JoinLink join = JoinLink.parse(link);
            return join.address.isNumeric() ? join.invitation : join.invitationAt(addressOf(join.address.host));
        } catch (UnknownHostException e) {
            log.add(context.getString(R.string.log_join_unknown));
            return link;
        } catch (JoinAddress.BadAddress e) {
            // It was checked when it was accepted.
            return link;
        }
    }

    /** Not a link-local address, which is worth nothing without the name of an interface; and with it the node would refuse to start. */
    private static String addressOf(String host) throws UnknownHostException {
        for (InetAddress address : InetAddress.getAllByName(host)) {
            if (!address.isLinkLocalAddress() || address instanceof Inet4Address) {
                return address.getHostAddress();
            }
        }
        throw new UnknownHostException(host);
    }

    /** Runs on the thread of the keeper, and looks at everything afterwards. */
    private void run(Runnable change) {
        try {
            thread.execute(() -> {
                change.run();
                turn();
            });
        } catch (RejectedExecutionException e) {
            // It was closed meanwhile, and nobody waits for this any more.
        }
    }

    private void turn() {
        if (closed) {
            return;
        }
        supervisor.tick(nowMs());
        lookAtNode();
        if (nowMs() - stateWrittenMs >= STATE_EVERY_MS && process != null) {
            writeDeviceState();
        }
        long nowMs = nowMs();
        Snapshot snapshot = snapshot(nowMs);
        main.post(() -> {
            // What another service's keeper says now is newer.
            if (!closed) {
                NodeMonitor.get().show(snapshot);
            }
        });
        if (next != null) {
            next.cancel(false);
        }
        if (!closed && !thread.isShutdown()) {
            long delayMs = Math.max(LOOK_MS_MIN, Math.min(supervisor.nextMs() - nowMs, untilNextLookMs()));
            next = thread.schedule(this::turn, delayMs, TimeUnit.MILLISECONDS);
        }
    }

    private long untilNextLookMs() {
        boolean watched = NodeMonitor.get().isWatched();
        switch (supervisor.phase()) {
            case STARTING:
                return LOOK_STARTING_MS;
            case SERVING:
            case WAITING:
                return watched ? LOOK_WATCHED_MS : LOOK_UNWATCHED_MS;
            default:
                return STATE_EVERY_MS;
        }
    }

    private void lookAtNode() {
        Supervisor.Phase phase = supervisor.phase();
        if (phase != Supervisor.Phase.STARTING && phase != Supervisor.Phase.SERVING) {
            history.clear();
            return;
        }
        try {
            NodeStatus now = StatusClient.ask(surroundings.adminPort());
            supervisor.answered(nowMs());
            rates = Rates.between(status, now);
            status = now;
        } catch (IOException | JSONException e) {
            // Not yet, or not in time: the next look will tell.
            rates = Rates.NONE;
        }
        if (history.size() == HISTORY_POINTS) {
            history.removeFirst();
        }
        history.addLast((float) rates.requestsPerSecond);
    }

    private Snapshot snapshot(long nowMs) {
        float[] points = new float[history.size()];
        int i = 0;
        for (float point : history) {
            points[i++] = point;
        }
        return new Snapshot(starts, supervisor.phase(), supervisor.holdReason(), supervisor.lastDeath(), supervisor.failures(),
                Math.max(0, supervisor.retryAtMs() - nowMs), status, rates, points, log.last(LOG_LINES_SHOWN));
    }

    /** Written beside and renamed, so that the node never reads half of it. */
    private void writeDeviceState() {
        File target = surroundings.deviceState();
        File beside = new File(target.getPath() + ".new");
        try (FileOutputStream out = new FileOutputStream(beside)) {
            out.write(device.toJson(System.currentTimeMillis()).getBytes("UTF-8"));
        } catch (IOException e) {
            log.add(context.getString(R.string.log_state_not_written, String.valueOf(e.getMessage())));
            return;
        }
        if (beside.renameTo(target)) {
            stateWrittenMs = nowMs();
        }
    }

    private static long nowMs() {
        return System.nanoTime() / 1_000_000;
    }
}
