package observe

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl"
)

// Formats of logs.
const (
	Text = "text"
	JSON = "json"
)

// LevelCritical is above slog.LevelError: somebody must look at once.
const LevelCritical = slog.LevelError + 4

// killSwitches are the environment variables that turn every log off when one
// of them is true.
var killSwitches = []string{"PAWL_DISABLE_LOGS", "DISABLE_LOGS"}

// Setup returns a logger that writes to w in a format, [Text] or [JSON], from a level on: one of [ParseLevel], or a
// slog.LevelVar, which may change while the logger is used. With PAWL_DISABLE_LOGS=true, or DISABLE_LOGS=true, in the
// environment it writes nothing.
func Setup(w io.Writer, format string, from slog.Leveler) (*slog.Logger, error) {
	off, err := disabled()
	if err != nil {
		return nil, err
	}
	options := &slog.HandlerOptions{Level: from, ReplaceAttr: rename}
	var h slog.Handler
	switch format {
	case Text:
		h = slog.NewTextHandler(w, options)
	case JSON:
		h = slog.NewJSONHandler(w, options)
	default:
		return nil, fmt.Errorf("log format %q: it is %q or %q", format, Text, JSON)
	}
	if off {
		h = slog.DiscardHandler
	}
	return slog.New(h), nil
}

// ParseLevel reads the name of a level: debug, info, warn, error or critical.
func ParseLevel(name string) (slog.Level, error) {
	level, ok := map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
		"critical": LevelCritical,
	}[strings.ToLower(name)]
	if !ok {
		return 0, fmt.Errorf("log level %q: it is debug, info, warn, error or critical", name)
	}
	return level, nil
}

// disabled reports whether a kill switch is on. One with a value that is neither
// true nor false is an error: whoever set it meant something.
func disabled() (bool, error) {
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

// rename gives the standard attributes our names.
func rename(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}
	switch a.Key {
	case slog.MessageKey:
		a.Key = Message
	case slog.LevelKey:
		if l, ok := a.Value.Any().(slog.Level); ok {
			a.Value = slog.StringValue(levelName(l))
		}
	}
	return a
}

func levelName(l slog.Level) string {
	if l >= LevelCritical {
		return "CRITICAL"
	}
	return l.String()
}
