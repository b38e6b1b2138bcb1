package logs

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/observe"
)

// Formats of logs.
const (
	Text = "text"
	JSON = "json"
)

// levels are the names of levels, the lowest first.
var levels = [...]string{"debug", "info", "warn", "error", "critical"}

// ParseLevel reads the name of a level: debug, info, warn, error or critical.
func ParseLevel(name string) (slog.Level, error) {
	for i, known := range levels {
		if strings.EqualFold(name, known) {
			return slog.LevelDebug + slog.Level(4*i), nil
		}
	}
	return 0, fmt.Errorf("log level %q: it is debug, info, warn, error or critical", name)
}

// rank is the place of a level in levels.
func rank(l slog.Level) int {
	return min(max(int(l-slog.LevelDebug)/4, 0), len(levels)-1)
}

func levelName(l slog.Level) string {
	if l >= observe.LevelCritical {
		return "CRITICAL"
	}
	return l.String()
}

// killSwitches are the environment variables that turn every log off when one of them is true.
var killSwitches = []string{"PAWL_DISABLE_LOGS", "DISABLE_LOGS"}

// Disabled reports whether a kill switch is on: PAWL_DISABLE_LOGS or DISABLE_LOGS. One with a value that is neither
// true nor false is an error: whoever set it meant something.
func Disabled() (bool, error) {
	var faults pawl.Faults
	off := false
	for _, name := range killSwitches {
		text := os.Getenv(name)
		if text == "" {
			continue
		}
		on, err := strconv.ParseBool(text)
		faults.If(err != nil, "%s is %q: it is true or false", name, text)
		off = off || on
	}
	return off, faults.Err()
}
