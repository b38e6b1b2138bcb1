package trace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-dev/pawl"
)

// The protocols of OTLP.
const (
	HTTP = "http"
	GRPC = "grpc"
)

// Config says where spans go.
type Config struct {
	OTLP     string            // the URL of a collector; empty: none, unless the environment names one
	Protocol string            // [HTTP] or [GRPC]; empty is HTTP
	Sample   float64           // the share of traces that is exported whatever becomes of them
	Headers  map[string]string // of the requests to the collector
	Version  string            // of the program
	Node     string            // the process, in the resource of its spans; may be empty
	// Getenv reads the variables of OpenTelemetry (OTEL_…), which go before the fields above; nil reads none.
	Getenv func(string) string
	Logger *slog.Logger // what cannot be exported is logged; nil is slog.Default
}

// Tracer makes spans of what happens to messages. Its methods are safe for concurrent use, also on nil.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	exporter *countingExporter
	made     atomic.Int64 // spans
	bound    uint64       // trace ids below it are sampled
	all      bool

	mu      sync.Mutex
	open    map[pawl.Token]*attempt
	swept   time.Time
	nothing bool // closed
}

// spansQueued is how many spans wait for the exporter at most; what comes then is dropped. It takes a burst of some
// thousand failures, at a kilobyte a span.
const spansQueued = 1 << 16

// countingExporter counts what it exported.
type countingExporter struct {
	sdk.SpanExporter
	exported, failed atomic.Int64
}

// ExportSpans implements [sdk.SpanExporter].
func (e *countingExporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if err != nil {
		e.failed.Add(int64(len(spans)))
	} else {
		e.exported.Add(int64(len(spans)))
	}
	return err
}

// Spans counts spans: made, exported, and failed to be exported. Others wait, or were dropped because too many waited.
func (t *Tracer) Spans(set func(value float64, labels ...string)) {
	if t != nil {
		set(float64(t.made.Load()), "made")
		set(float64(t.exporter.exported.Load()), "exported")
		set(float64(t.exporter.failed.Load()), "failed")
	}
}

// New returns a tracer; nil if neither the configuration nor the environment names a collector.
func New(ctx context.Context, c Config) (*Tracer, error) {
	if c.Getenv == nil {
		c.Getenv = func(string) string { return "" }
	}
	on, err := c.environment()
	if err != nil || !on {
		return nil, err
	}
	exporter, err := c.exporter(ctx)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	if c.Logger != nil {
		otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
			c.Logger.Warn("traces were not exported", "error", err)
		}))
	}
	about := []attribute.KeyValue{semconv.ServiceName("pawl"), semconv.ServiceVersion(c.Version)}
	if c.Node != "" {
		about = append(about, semconv.ServiceInstanceID(c.Node))
	}
	r, err := resource.New(ctx, resource.WithSchemaURL(schema), resource.WithAttributes(about...),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrSchemaURLConflict) {
		return nil, fmt.Errorf("traces: %w", err)
	}
	t := &Tracer{open: map[pawl.Token]*attempt{}, all: c.Sample >= 1, bound: uint64(c.Sample * (1 << 63)),
		exporter: &countingExporter{SpanExporter: exporter}}
	var batches []sdk.BatchSpanProcessorOption
	if c.Getenv("OTEL_BSP_MAX_QUEUE_SIZE") == "" {
		batches = append(batches, sdk.WithMaxQueueSize(spansQueued), sdk.WithMaxExportBatchSize(spansQueued/32))
	}
	t.provider = sdk.NewTracerProvider(sdk.WithBatcher(t.exporter, batches...), sdk.WithResource(r),
		sdk.WithIDGenerator(chosenIDs{}), sdk.WithSampler(sdk.AlwaysSample())) // what is made a span was chosen before
	t.tracer = t.provider.Tracer("github.com/pawl-dev/pawl", trace.WithSchemaURL(schema),
		trace.WithInstrumentationVersion(c.Version))
	return t, nil
}

// environment takes over what the variables of OpenTelemetry say, and reports whether there is a collector.
func (c *Config) environment() (on bool, err error) {
	if c.Getenv("OTEL_SDK_DISABLED") == "true" || c.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return false, nil
	}
	signal := c.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	if all := c.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"); signal != "" {
		c.OTLP = signal
	} else if all != "" {
		c.OTLP = all
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"} {
		switch text := c.Getenv(name); text {
		case "":
		case "grpc":
			c.Protocol = GRPC
		case "http/protobuf":
			c.Protocol = HTTP
		default:
			err = errors.Join(err, fmt.Errorf("%s is %q: it is grpc or http/protobuf", name, text))
		}
	}
	switch sampler := c.Getenv("OTEL_TRACES_SAMPLER"); strings.TrimPrefix(sampler, "parentbased_") {
	case "":
	case "always_on":
		c.Sample = 1
	case "always_off":
		c.Sample = 0
	case "traceidratio":
		text := c.Getenv("OTEL_TRACES_SAMPLER_ARG")
		share, bad := strconv.ParseFloat(text, 64)
		if bad != nil || !(share >= 0 && share <= 1) {
			err = errors.Join(err, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG is %q: it is a number from 0 to 1", text))
		}
		c.Sample = share
	default:
		err = errors.Join(err, fmt.Errorf("OTEL_TRACES_SAMPLER is %q: it is always_on, always_off or traceidratio, "+
			"each also with parentbased_ before it", sampler))
	}
	return c.OTLP != "", err
}

// exporter connects to the collector, in the background. Headers, certificates and such of the environment are read by
// the exporters themselves.
func (c *Config) exporter(ctx context.Context) (*otlptrace.Exporter, error) {
	u, err := url.Parse(c.OTLP)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("the address of the collector must be a URL such as http://127.0.0.1:4318")
	}
	if c.Protocol == GRPC {
		options := []otlptracegrpc.Option{otlptracegrpc.WithEndpointURL(c.OTLP)}
		if len(c.Headers) > 0 {
			options = append(options, otlptracegrpc.WithHeaders(c.Headers))
		}
		return otlptracegrpc.New(ctx, options...)
	}
	if c.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" && !strings.HasSuffix(u.Path, "/v1/traces") {
		u = u.JoinPath("v1/traces")
	}
	options := []otlptracehttp.Option{otlptracehttp.WithEndpointURL(u.String())}
	if len(c.Headers) > 0 {
		options = append(options, otlptracehttp.WithHeaders(c.Headers))
	}
	return otlptracehttp.New(ctx, options...)
}

// Close exports what is left, until ctx ends.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	left := t.open
	t.open, t.nothing = map[pawl.Token]*attempt{}, true
	t.mu.Unlock()
	for _, a := range left {
		a.unsettled(time.Now(), "the process ended first")
	}
	return t.provider.Shutdown(ctx)
}
