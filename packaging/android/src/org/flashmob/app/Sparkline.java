package org.flashmob.app;

import android.content.Context;
import android.graphics.Canvas;
import android.graphics.Paint;
import android.graphics.Path;
import android.util.AttributeSet;
import android.view.View;

/** The last minute's requests a second, as a line over a tint. Its height is relative to the most of that minute; the figure beside it has the number. */
public final class Sparkline extends View {
    private static final int POINTS = 60;
    private static final float TINT = 0.16f;

    private final Paint line = new Paint(Paint.ANTI_ALIAS_FLAG);
    private final Paint area = new Paint(Paint.ANTI_ALIAS_FLAG);
    private final Path path = new Path();
    private float[] values = new float[0];

    public Sparkline(Context context, AttributeSet attributes) {
        super(context, attributes);
        line.setStyle(Paint.Style.STROKE);
        line.setStrokeWidth(2 * getResources().getDisplayMetrics().density);
        line.setStrokeJoin(Paint.Join.ROUND);
        line.setStrokeCap(Paint.Cap.ROUND);
        area.setStyle(Paint.Style.FILL);
    }

    void show(float[] newest, int color) {
        values = newest;
        line.setColor(color);
        area.setColor(color);
        area.setAlpha(Math.round(255 * TINT));
        invalidate();
    }

    @Override
    protected void onDraw(Canvas canvas) {
        if (values.length < 2) {
            return;
        }
        float most = 1;
        for (float value : values) {
            most = Math.max(most, value);
        }
        float inset = line.getStrokeWidth();
        float width = getWidth() - 2 * inset;
        float height = getHeight() - 2 * inset;
        boolean rightToLeft = getLayoutDirection() == LAYOUT_DIRECTION_RTL;
        path.rewind();
        float firstX = 0;
        float lastX = 0;
        for (int i = 0; i < values.length; i++) {
            // The newest is at the end of the line; an unfinished minute leaves room at its beginning.
            float along = (POINTS - values.length + i) / (float) (POINTS - 1);
            float x = inset + width * (rightToLeft ? 1 - along : along);
            float y = inset + height * (1 - values[i] / most);
            if (i == 0) {
                path.moveTo(x, y);
                firstX = x;
            } else {
                path.lineTo(x, y);
            }
            lastX = x;
        }
        canvas.drawPath(path, line);
        path.lineTo(lastX, inset + height);
        path.lineTo(firstX, inset + height);
        path.close();
        canvas.drawPath(path, area);
    }
}
