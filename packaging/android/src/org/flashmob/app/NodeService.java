package org.flashmob.app;

import android.app.Service;
import android.content.Context;
import android.content.Intent;
import android.content.pm.ServiceInfo;
import android.os.Build;
import android.os.IBinder;

/** Keeps the app alive while the node serves, with its notification, and the device awake. All that blocks is done by {@link NodeKeeper}. */
public final class NodeService extends Service implements NodeMonitor.Listener {
    static final String ACTION_START = "org.flashmob.app.START";
    static final String ACTION_STOP = "org.flashmob.app.STOP";
    /** End the node and start it with the settings of now. */
    static final String ACTION_RESTART = "org.flashmob.app.RESTART";
    /** Look again: somebody watches, or a preference changed. */
    static final String ACTION_LOOK = "org.flashmob.app.LOOK";

    private NodeKeeper keeper;
    private DeviceWatcher watcher;
    private Holds holds;
    private Locks locks;
    private boolean begun;
    private boolean inForeground;
    private int starts;
    private int lastStartId;
    private String notice = "";

    static void start(Context context) {
        Intent intent = new Intent(context, NodeService.class).setAction(ACTION_START);
        if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.O) {
            context.startForegroundService(intent);
        } else {
            context.startService(intent);
        }
    }

    /** Tells a running service something. Only to be called while it runs: it then is in the foreground, and may be reached. */
    static void tell(Context context, String action) {
        context.startService(new Intent(context, NodeService.class).setAction(action));
    }

    @Override
    public void onCreate() {
        super.onCreate();
        Notices.makeChannel(this);
        locks = new Locks(this);
        keeper = new NodeKeeper(this, Surroundings.of(this));
        watcher = new DeviceWatcher(this, this::onDevice);
        holds = new Holds(new Preferences(this), this::readDevice);
    }

    @Override
    public int onStartCommand(Intent intent, int flags, int startId) {
        lastStartId = startId;
        // Without an intent Android brings the service back after it killed the app: perhaps while the node was about to end for good.
        if (intent == null && !new Preferences(this).isServingWanted()) {
            endIfIdle();
            return START_NOT_STICKY;
        }
        String action = intent == null || intent.getAction() == null ? ACTION_START : intent.getAction();
        if (action.equals(ACTION_START)) {
            if (!enterForeground()) {
                return START_NOT_STICKY;
            }
            new Preferences(this).setServingWanted(true);
            begin();
        } else if (action.equals(ACTION_STOP)) {
            new Preferences(this).setServingWanted(false);
            keeper.stop();
            endIfIdle();
        } else if (!begun) {
            endIfIdle();
        } else if (action.equals(ACTION_RESTART)) {
            keeper.restart();
        } else {
            readDevice();
            keeper.look();
        }
        return START_STICKY;
    }

    @Override
    public IBinder onBind(Intent intent) {
        return null;
    }

    @Override
    public void onDestroy() {
        NodeMonitor.get().remove(this);
        watcher.stop();
        holds.close();
        keeper.close();
        locks.hold(false);
        // Ended from the system's list of services, say: the keeper tells nothing any more, and the screen must not show what was.
        if (!NodeMonitor.get().latest().isOver()) {
            NodeMonitor.get().show(Snapshot.STOPPED);
        }
        super.onDestroy();
    }

    @Override
    public void onSnapshot(Snapshot snapshot) {
        locks.hold(snapshot.isBusy());
        if (snapshot.isOver()) {
            // One from before the last start must not end what was just begun.
            if (snapshot.starts == starts) {
                leave(snapshot);
            }
        } else if (inForeground) {
            notice = Notices.update(this, snapshot, notice);
        }
    }

    private void begin() {
        DeviceState state = DeviceWatcher.read(this);
        starts++;
        keeper.start(state, holds.of(state));
        Notices.clearTrouble(this);
        if (!begun) {
            begun = true;
            // What an earlier service left behind is not this one's state.
            NodeMonitor.get().show(Snapshot.STARTING);
            NodeMonitor.get().add(this);
            watcher.start();
        }
    }

    private void endIfIdle() {
        if (!begun) {
            stopSelf(lastStartId);
        }
    }

    private void readDevice() {
        if (begun) {
            onDevice(DeviceWatcher.read(this));
        }
    }

    private void onDevice(DeviceState state) {
        keeper.deviceChanged(state, holds.of(state));
    }

    /** False if Android does not let it, from the background without an exemption: then a notification asks the user to open the app. */
    private boolean enterForeground() {
        try {
            if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.UPSIDE_DOWN_CAKE) {
                startForeground(Notices.SERVING_ID, Notices.serving(this, NodeMonitor.get().latest()),
                        ServiceInfo.FOREGROUND_SERVICE_TYPE_SPECIAL_USE);
            } else {
                startForeground(Notices.SERVING_ID, Notices.serving(this, NodeMonitor.get().latest()));
            }
            inForeground = true;
            return true;
        } catch (IllegalStateException e) {
            Notices.askToOpen(this);
            stopSelf();
            return false;
        }
    }

    private void leave(Snapshot snapshot) {
        if (inForeground) {
            inForeground = false;
            stopForeground(true);
        }
        if (snapshot.phase == Supervisor.Phase.FAILED) {
            Notices.failed(this, snapshot);
        }
        // Not a start that Android has taken and not yet handed over: it would be owed a notification, and Android ends an app for that.
        stopSelf(lastStartId);
    }
}
