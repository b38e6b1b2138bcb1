package config

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

const faultyLogger = `listen: 127.0.0.1:9102
logger:
  format: xml                       # 11 logger.format: must be text or json (got "xml")
  include: [seq, sequence]          # 18 logger.include[1]: must be
  buffer: 0                         # 11 logger.buffer: must be at least 1
  prometheus: {port: 9103}           # 22 logger.prometheus.port: metrics are served where listen says, at port 9102 (got 9103)
  outputs:
    - path: x                       # 7 logger.outputs[0]: has no type
    - type: file                    # 7 logger.outputs[1]: type file needs a path
    - {type: file, name: j, path: a, format: json} # 46 logger.outputs[2].format: a file is written as text only (got json)
    - {type: mq, name: q, backend: kafka, brokers: ['a:1'], format: text} # 69 logger.outputs[3].format: a message queue gets JSON only (got text)
    - {type: console, path: c}      # 23 logger.outputs[4].path: goes with type file, not with console
    - {type: file, name: again, path: b, max_size_mb: 1} # 55 logger.outputs[5].max_size_mb: goes with rotate: size
    - {type: mq, name: r, backend: redis, brokers: [nothing]} # 53 logger.outputs[6].brokers[0]: must be HOST:PORT, or a URL
    - {type: mq, name: n, backend: kafka} # 7 logger.outputs[7]: type mq needs brokers
    - {type: console, name: s, buffer: many} # 40 logger.outputs[8].buffer: must be a whole number
`

func TestEveryFaultOfALogger(t *testing.T) {
	faults(t, faultyLogger)
}

func TestWhatOfALoggerDoesNotGoTogether(t *testing.T) {
	for text, want := range map[string]string{
		"logger: {format: text, outputs: [{type: mq, backend: kafka, brokers: ['a:1']}]}":       "a message queue gets JSON only, and the format of logger is text",
		"logger: {format: json, outputs: [{type: file, path: a}]}":                              "a file is written as text only, and the format of logger is json",
		"logger: {outputs: [{type: console}, {type: console}]}":                                 "another output has this name",
		"logger: {outputs: [{type: file, path: a}, {type: file, name: b, path: a}]}":            "another output writes to this file",
		"logger: {outputs: [{type: mq, backend: redis, brokers: ['kafka://a']}]}":               "is no address of redis",
		"logger: {outputs: [{type: mq, backend: redis, brokers: ['a:1', 'b:1']}]}":              "more than one address of Redis",
		"logger: {outputs: [{type: mq, backend: kafka, brokers: []}]}":                          "names no broker",
		"logger: {prometheus: {path: /m}}":                                                      "must be /metrics",
		"logger: {outputs: [{type: mq, backend: kafka, brokers: ['a:1'], flush_interval: 1s}]}": "unknown key",
		"logger: {outputs: [{type: mq, backend: kafka, brokers: ['a:1'], compression: zip}]}":   "must be lz4 or none",
		"logger: {outputs: [{type: database}]}":                                                 "must be console, file or mq",
	} {
		_, err := Load(Source{Path: "pawl.yaml", Text: []byte(text)})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "pawl.yaml:1:") {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestLogsGoToRedisWithTLS: rediss: was refused.
func TestLogsGoToRedisWithTLS(t *testing.T) {
	for _, address := range []string{"rediss://:p@h:1", "REDIS://h", "h:1"} {
		load(t, "logger: {outputs: [{type: mq, backend: redis, brokers: ['"+address+"']}]}", nil)
	}
}

func TestLogger(t *testing.T) {
	c := load(t, `logger:
  include: [seq]
  buffer: 20000
  outputs:
    - {type: console, format: json, stream: level, level: warn}
    - {type: file, path: a.log, rotate: size}
    - {type: mq, backend: kafka, brokers: ['a:1', 'b:1'], buffer: 5}
    - {type: mq, name: off, enabled: false, backend: redis, brokers: ['a:1']}
`, nil)
	want := Logger{Enabled: true, Level: "info", Include: []string{"seq"}, Metrics: true, Outputs: []LogOutput{
		{Name: "console", Type: LogConsole, Level: "warn", JSON: true, Buffer: 20000, Flush: time.Second / 2, Stream: "level"},
		{Name: "file", Type: LogFile, Buffer: 20000, Flush: time.Second / 2, Path: "a.log", MaxBytes: 256 << 20,
			MaxFiles: 14},
		{Name: "mq", Type: MQ, JSON: true, Buffer: 5, Flush: time.Second / 2, Backend: "kafka",
			Brokers: []string{"a:1", "b:1"}, Topic: "log", Batch: 200, Compression: "lz4"},
	}}
	for i := range c.Logger.Outputs {
		if i < len(want.Outputs) && !reflect.DeepEqual(c.Logger.Outputs[i], want.Outputs[i]) {
			t.Errorf("%+v, want\n%+v", c.Logger.Outputs[i], want.Outputs[i])
		}
	}
	if len(c.Logger.Outputs) != len(want.Outputs) {
		t.Errorf("%d outputs", len(c.Logger.Outputs))
	}
	c.Logger.Outputs, want.Outputs = nil, nil
	if !reflect.DeepEqual(c.Logger, want) {
		t.Errorf("%+v, want %+v", c.Logger, want)
	}
}
