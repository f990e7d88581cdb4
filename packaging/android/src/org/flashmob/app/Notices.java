package org.flashmob.app;

import android.app.Notification;
import android.app.NotificationChannel;
import android.app.NotificationManager;
import android.app.PendingIntent;
import android.content.Context;
import android.content.Intent;
import android.os.Build;

/** Notifications: that the node serves, that it gave up, that it could not be brought back. Where they are denied it serves all the same. */
final class Notices {
    static final int SERVING_ID = 1;
    static final int TROUBLE_ID = 2;
    static final String CHANNEL = "serving";
    private static final int FLAGS =
            PendingIntent.FLAG_UPDATE_CURRENT | (Build.VERSION.SDK_INT >= Build.VERSION_CODES.M ? PendingIntent.FLAG_IMMUTABLE : 0);

    private Notices() {}

    static void makeChannel(Context context) {
        if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.O) {
            // Low: it is there all day, and must neither sound nor peek.
            NotificationChannel channel = new NotificationChannel(
                    CHANNEL, context.getString(R.string.channel_serving), NotificationManager.IMPORTANCE_LOW);
            channel.setShowBadge(false);
            manager(context).createNotificationChannel(channel);
        }
    }

    static Notification serving(Context context, Snapshot snapshot) {
        Words words = new Words(context.getResources());
        Notification.Builder builder = builder(context)
                .setContentTitle(words.title(snapshot))
                .setContentText(words.notice(snapshot))
                .setOngoing(true)
                .setShowWhen(false);
        if (snapshot.phase != Supervisor.Phase.STOPPING) {
            PendingIntent stop = PendingIntent.getService(
                    context, 1, new Intent(context, NodeService.class).setAction(NodeService.ACTION_STOP), FLAGS);
            builder.addAction(new Notification.Action.Builder(R.drawable.ic_stop, context.getString(R.string.stop), stop).build());
        }
        return builder.build();
    }

    /** Shows it only if it says something else than {@code before}, which it returns the successor of: Android drops what comes too often. */
    static String update(Context context, Snapshot snapshot, String before) {
        Words words = new Words(context.getResources());
        String now = words.title(snapshot) + words.notice(snapshot);
        if (!now.equals(before)) {
            manager(context).notify(SERVING_ID, serving(context, snapshot));
        }
        return now;
    }

    static void failed(Context context, Snapshot snapshot) {
        manager(context).notify(TROUBLE_ID, builder(context)
                .setContentTitle(context.getString(R.string.state_failed))
                .setContentText(snapshot.death)
                .setStyle(new Notification.BigTextStyle().bigText(snapshot.death))
                .setAutoCancel(true)
                .build());
    }

    static void askToOpen(Context context) {
        makeChannel(context);
        manager(context).notify(TROUBLE_ID, builder(context)
                .setContentTitle(context.getString(R.string.notice_open_title))
                .setContentText(context.getString(R.string.notice_open))
                .setAutoCancel(true)
                .build());
    }

    static void clearTrouble(Context context) {
        manager(context).cancel(TROUBLE_ID);
    }

    private static Notification.Builder builder(Context context) {
        PendingIntent open = PendingIntent.getActivity(context, 0, new Intent(context, MainActivity.class), FLAGS);
        Notification.Builder builder = Build.VERSION.SDK_INT >= Build.VERSION_CODES.O
                ? new Notification.Builder(context, CHANNEL)
                : new Notification.Builder(context).setPriority(Notification.PRIORITY_LOW);
        if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.S) {
            builder.setForegroundServiceBehavior(Notification.FOREGROUND_SERVICE_IMMEDIATE);
        }
        return builder.setSmallIcon(R.drawable.ic_notification).setColor(context.getResources().getColor(R.color.primary)).setContentIntent(open);
    }

    private static NotificationManager manager(Context context) {
        return (NotificationManager) context.getSystemService(Context.NOTIFICATION_SERVICE);
    }
}
