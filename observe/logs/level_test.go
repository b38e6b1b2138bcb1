package logs_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/observe"
	"github.com/pawl-dev/pawl/observe/logs"
)

func TestLevelsHaveNames(t *testing.T) {
	for name, want := range map[string]slog.Level{"debug": slog.LevelDebug, "INFO": slog.LevelInfo,
		"Warn": slog.LevelWarn, "error": slog.LevelError, "critical": observe.LevelCritical} {
		if got, err := logs.ParseLevel(name); err != nil || got != want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if _, err := logs.ParseLevel("loud"); err == nil || !strings.Contains(err.Error(), "critical") {
		t.Error(err)
	}
}

func TestKillSwitches(t *testing.T) {
	for _, name := range []string{"PAWL_DISABLE_LOGS", "DISABLE_LOGS"} {
		for value, want := range map[string]bool{"true": true, "1": true, "false": false, "": false} {
			t.Run(name+"="+value, func(t *testing.T) {
				t.Setenv(name, value)
				if off, err := logs.Disabled(); err != nil || off != want {
					t.Error(off, err)
				}
			})
		}
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "maybe")
			if _, err := logs.Disabled(); err == nil || !strings.Contains(err.Error(), name+` is "maybe"`) {
				t.Error(err)
			}
		})
	}
}
