package loglimit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/slogtest"
	"testing/synctest"
	"time"
)

// flood logs n records through l.
func flood(l *slog.Logger, n int, level slog.Level, message string) {
	for i := range n {
		l.Log(context.Background(), level, message, "i", i)
	}
}

func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}), 10, time.Minute))
		count := func(s string) int { return strings.Count(out.String(), s) }

		flood(log.With("conn", 1), 500, slog.LevelInfo, "closed")
		flood(log.WithGroup("g"), 500, slog.LevelInfo, "closed")
		flood(log, 5, slog.LevelWarn, "closed")
		flood(log, 500, slog.LevelDebug, "detail")
		log.Error("another")
		if c, w, d := count("level=INFO"), count("level=WARN"), count("level=DEBUG"); c != 10 || w != 5 || d != 500 || count("another") != 1 {
			t.Errorf("%d, %d and %d lines", c, w, d)
		}
		time.Sleep(time.Minute)
		out.Reset()
		flood(log, 20, slog.LevelInfo, "closed")
		if count("closed") != 10 || count("unlogged=990") != 1 || count("unlogged") != 1 {
			t.Errorf("the next period: %s", &out)
		}
		time.Sleep(10 * time.Minute)
		out.Reset()
		flood(log, 1, slog.LevelInfo, "closed")
		time.Sleep(time.Minute)
		flood(log, 1, slog.LevelInfo, "closed")
		if count("closed") != 2 || count("unlogged=10") != 1 || count("unlogged") != 1 {
			t.Errorf("told twice: %s", &out)
		}
	})
}

// Messages that are no constants share one place once the table is full.
func TestManyMessages(t *testing.T) {
	var out bytes.Buffer
	h := New(slog.NewTextHandler(&out, nil), 10, time.Hour)
	log := slog.New(h)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 1000 {
				log.Info(fmt.Sprint("message ", w, " ", i))
			}
		})
	}
	wg.Wait()
	if n := strings.Count(out.String(), "\n"); n != maxMessages+10 || len(h.quota.seen) != maxMessages+1 {
		t.Errorf("%d lines, %d places", n, len(h.quota.seen))
	}
}

// TestHandler checks what every slog.Handler promises.
func TestHandler(t *testing.T) {
	var out bytes.Buffer
	slogtest.Run(t, func(*testing.T) slog.Handler {
		out.Reset()
		return New(slog.NewJSONHandler(&out, nil), 10, time.Minute)
	}, func(t *testing.T) map[string]any {
		m := map[string]any{}
		if err := json.Unmarshal(out.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		return m
	})
}
