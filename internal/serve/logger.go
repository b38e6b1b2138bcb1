package serve

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/observe/logs"
	"github.com/pawl-dev/pawl/open"
)

// LogConfig is what a log needs besides what the file says about it.
type LogConfig struct {
	Logger config.Logger
	// Level is that of the logger; a reload may set it.
	Level slog.Leveler
	// Node names this process, as in leases.
	Node string
	// Redact takes secrets out of a line.
	Redact func(string) string
	// Stdout and Stderr are the streams of the process.
	Stdout, Stderr io.Writer
}

// OpenLog opens the outputs of a log. Its error has all that could not be opened.
func OpenLog(c LogConfig) (*logs.Log, error) {
	off, err := logs.Disabled()
	if err != nil {
		return nil, err
	}
	made := logs.Config{Level: c.Level, Include: c.Logger.Include, Node: c.Node, Redact: c.Redact}
	if off || !c.Logger.Enabled {
		return logs.New(made), nil
	}
	var errs []error
	for i := range c.Logger.Outputs {
		o := &c.Logger.Outputs[i]
		sink := logs.Sink{Name: o.Name, JSON: o.JSON, Buffer: o.Buffer, Batch: o.Batch, Flush: o.Flush}
		if o.Level != "" {
			level, err := logs.ParseLevel(o.Level)
			errs = append(errs, err)
			sink.Level = level
		}
		if sink.Output, err = openOutput(o, c.Stdout, c.Stderr); err != nil {
			errs = append(errs, fmt.Errorf("logger.outputs: %s: %w", o.Name, err))
			continue
		}
		made.Sinks = append(made.Sinks, sink)
	}
	if err := errors.Join(errs...); err != nil {
		for _, s := range made.Sinks {
			s.Output.Close()
		}
		return nil, err
	}
	return logs.New(made), nil
}

func openOutput(o *config.LogOutput, stdout, stderr io.Writer) (logs.Output, error) {
	switch {
	case o.Type == config.LogFile:
		return logs.OpenFile(logs.FileConfig{Path: o.Path, Daily: o.Daily, MaxBytes: o.MaxBytes, MaxFiles: o.MaxFiles})
	case o.Type == config.MQ && o.Backend == "kafka":
		return open.LogTopic(strings.Join(o.Brokers, ","), o.Topic, o.Compression)
	case o.Type == config.MQ:
		address := cmp.Or(o.Brokers...)
		if !strings.Contains(address, "://") {
			address = "redis://" + address
		}
		return logs.NewRedis(logs.RedisConfig{URL: address, Stream: o.Topic, Batch: o.Batch, LZ4: o.Compression == "lz4"})
	case o.Stream == "stdout":
		return logs.NewConsole(stdout, nil), nil
	case o.Stream == "level":
		return logs.NewConsole(stderr, stdout), nil
	default:
		return logs.NewConsole(stderr, nil), nil
	}
}
