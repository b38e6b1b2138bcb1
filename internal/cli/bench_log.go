package cli

import (
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/bench"
	"github.com/pawl-dev/pawl/internal/cli/flag"
	"github.com/pawl-dev/pawl/observe/logs"
	"github.com/pawl-dev/pawl/open"
)

// logBenchFlags are the flags of bench log.
type logBenchFlags struct {
	records, producers, buffer int
	per                        flag.Rate
	sinks                      []string
}

func (s *session) benchLog() *cobra.Command {
	f := logBenchFlags{per: flag.Rate{PerSecond: 314_152}}
	c := &cobra.Command{
		Use: "log", Short: "Measure the way of log records to their sinks", Args: count(0, 0, "flags only"),
		Long: `Logs records from several producers, at a rate, to one or more sinks, and prints how many
each sink wrote and dropped, how many waited at most, and how long a call took at the
99th percentile. Each record is either written or dropped; both are counted.

The sinks are those of logger: in pawl.yaml, and some for this measurement:

  console                         text on stderr
  file:PATH                       text; file:/dev/full is a full disk
  kafka://HOST:PORT[/TOPIC]       JSON, to the topic "log" by default
  redis://HOST:PORT[/DB][#STREAM] JSON, to the stream "log" by default
  null                            takes everything
  hang[:TIME]                     takes the first record, nothing for 5 seconds, then everything
  fail                            takes nothing`,
		Example: `  pawl bench log --records 20000 --rate 20000/s --sink null
  pawl bench log --records 20000 --rate 20000/s --sink null --sink fail -o json`,
		RunE: func(c *cobra.Command, _ []string) error {
			if f.records < 1 || f.producers < 1 || f.buffer < 1 {
				return usage("use numbers from 1", "a number is out of its range")
			}
			sinks, err := s.benchSinks(&f)
			if err != nil {
				return err
			}
			r := bench.Log(c.Context(), bench.LogConfig{Records: f.records, Producers: f.producers,
				PerSecond: f.per.PerSecond, Sinks: sinks})
			return s.one(r, func(w io.Writer) {
				fmt.Fprintf(w, "%d records offered in %.2f s, %.0f a second\n", r.Offered, r.ElapsedSeconds, r.PerSecond)
				for _, name := range slices.Sorted(maps.Keys(r.Sinks)) {
					k := r.Sinks[name]
					fmt.Fprintf(w, "%s: %d written, %d dropped (%.2f %%), at most %d waited; calls took %v at p99\n",
						name, k.Written, k.Dropped, 100*float64(k.Dropped)/float64(max(r.Offered, 1)), k.MaxLag,
						time.Duration(k.P99BlockNS))
				}
			})
		},
	}
	fl := c.Flags()
	fl.IntVar(&f.records, "records", 200_000, "how many records")
	fl.IntVar(&f.producers, "producers", 4, "producers at once")
	fl.Var(&f.per, "rate", "log no faster than this, all producers together")
	fl.IntVar(&f.buffer, "buffer", 20_000, "how many records wait for a sink at most")
	fl.StringArrayVar(&f.sinks, "sink", []string{"null"}, "a `SINK`; may be repeated")
	return c
}

// benchSinks opens the sinks that the flags name.
func (s *session) benchSinks(f *logBenchFlags) ([]logs.Sink, error) {
	var all []logs.Sink
	seen := map[string]int{}
	for _, text := range f.sinks {
		sink, err := s.benchSink(text)
		if err != nil {
			for _, k := range all {
				k.Output.Close()
			}
			return nil, usage("see `pawl bench log --help`", "--sink: %w", err)
		}
		if seen[sink.Name]++; seen[sink.Name] > 1 {
			sink.Name = fmt.Sprintf("%s-%d", sink.Name, seen[sink.Name])
		}
		sink.Buffer = f.buffer
		all = append(all, sink)
	}
	return all, nil
}

func (s *session) benchSink(text string) (logs.Sink, error) {
	kind, rest, _ := strings.Cut(text, ":")
	sink := logs.Sink{Name: kind}
	var err error
	switch {
	case kind == "console" && rest == "":
		sink.Output = logs.NewConsole(s.Err, nil)
	case kind == "null" && rest == "":
		sink.Output = logs.NewNull()
	case kind == "fail" && rest == "":
		sink.Output = bench.NewFailing()
	case kind == "hang":
		hang := flag.Duration(5 * time.Second)
		if rest != "" {
			err = hang.Set(rest)
		}
		sink.Output = bench.NewHanging(time.Duration(hang))
	case kind == "file" && rest != "":
		sink.Output, err = logs.OpenFile(logs.FileConfig{Path: rest})
	case kind == "kafka" || kind == "redis" || kind == "rediss":
		return s.benchQueue(sink, text)
	default:
		err = fmt.Errorf("%q is no sink", text)
	}
	return sink, err
}

// benchQueue opens a sink of a message queue.
func (s *session) benchQueue(sink logs.Sink, text string) (logs.Sink, error) {
	s.redactor.LearnURLs(text)
	sink.JSON, sink.Batch, sink.Flush = true, logs.DefaultBatch, 20*time.Millisecond
	name := logs.DefaultTopic
	var err error
	if strings.HasPrefix(sink.Name, "redis") {
		address, stream, named := strings.Cut(text, "#")
		if named {
			name = stream
		}
		sink.Output, err = logs.NewRedis(logs.RedisConfig{URL: address, Stream: name, Batch: sink.Batch, LZ4: true})
		return sink, err
	}
	base, query, _ := strings.Cut(text, "?")
	if brokers, topic, ok := strings.Cut(strings.TrimPrefix(base, "kafka://"), "/"); ok {
		base = "kafka://" + brokers
		if topic, err = url.PathUnescape(topic); err == nil && topic != "" {
			name = topic
		}
	}
	if query != "" {
		base += "?" + query
	}
	if err == nil {
		sink.Output, err = open.LogTopic(base, name, "")
	}
	return sink, err
}
