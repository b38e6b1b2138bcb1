package observe_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/observe"
)

func TestSetupWritesOurNames(t *testing.T) {
	var b strings.Builder
	l, err := observe.Setup(&b, observe.JSON, slog.LevelInfo)
	if err != nil {
		t.Fatal(err)
	}
	l.Debug("not this one")
	l.Log(context.Background(), observe.LevelCritical, "burning", observe.TaskID, "x",
		slog.Group("g", slog.String("msg", "kept")))
	var got map[string]any
	if err := json.Unmarshal([]byte(b.String()), &got); err != nil {
		t.Fatal(err, b.String())
	}
	if got[observe.Message] != "burning" || got[observe.Level] != "CRITICAL" || got["task_id"] != "x" ||
		got[observe.Time] == nil {
		t.Fatal(got)
	}
	if got["g"].(map[string]any)["msg"] != "kept" {
		t.Fatal(got)
	}
}

func TestSetupText(t *testing.T) {
	var b strings.Builder
	l, err := observe.Setup(&b, observe.Text, slog.LevelWarn)
	if err != nil {
		t.Fatal(err)
	}
	l.Info("not this one")
	l.Warn("this")
	if !strings.Contains(b.String(), "level=WARN message=this\n") || strings.Contains(b.String(), "not this") {
		t.Fatal(b.String())
	}
}

func TestKillSwitch(t *testing.T) {
	for _, name := range []string{"PAWL_DISABLE_LOGS", "DISABLE_LOGS"} {
		t.Run(name, func(t *testing.T) {
			for value, silent := range map[string]bool{"true": true, "1": true, "false": false, "": false} {
				t.Setenv(name, value)
				var b strings.Builder
				l, err := observe.Setup(&b, observe.JSON, slog.LevelDebug)
				if err != nil {
					t.Fatal(err)
				}
				l.Error("x")
				if (b.Len() == 0) != silent || l.Enabled(context.Background(), slog.LevelError) == silent {
					t.Errorf("%s=%q: wrote %q", name, value, b.String())
				}
			}
			t.Setenv(name, "please")
			if _, err := observe.Setup(nil, observe.JSON, slog.LevelInfo); err == nil ||
				!strings.Contains(err.Error(), name) {
				t.Error(err)
			}
		})
	}
}

func TestSetupRefusesNonsense(t *testing.T) {
	if _, err := observe.Setup(nil, "xml", slog.LevelInfo); err == nil {
		t.Error("format")
	}
	if _, err := observe.ParseLevel("loud"); err == nil {
		t.Error("level")
	}
	if level, err := observe.ParseLevel("WARN"); err != nil || level != slog.LevelWarn {
		t.Error(level, err)
	}
}
