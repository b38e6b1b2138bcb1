// Package edit changes JSON by programs of jq, and leaves alone what they do not
// touch.
package edit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/metrics"
	"time"
	"unicode/utf8"

	"github.com/itchyny/gojq"
)

// Limits of one application of a patch.
const (
	maxTime   = 5 * time.Second
	maxPatch  = 64 << 10
	maxMemory = 256 << 20 // that the process may grow by meanwhile
)

var errMemory = fmt.Errorf("it takes more than %d MiB of memory", maxMemory>>20)

// A Patch returns a body as a program of jq changes it, which makes one value of one value. It sees nothing but its
// input: no environment, no files. Numbers that it does not compute stay as they were written; names within an object
// come in order. A body that it does not change stays as it is, byte by byte. It is safe for concurrent use.
type Patch func(ctx context.Context, body []byte) ([]byte, error)

// Parse reads a patch.
func Parse(text string) (Patch, error) {
	if len(text) > maxPatch {
		return nil, fmt.Errorf("it has %d bytes; the limit is %d", len(text), maxPatch)
	}
	query, err := gojq.Parse(text)
	if err != nil {
		return nil, err
	}
	code, err := gojq.Compile(query)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, body []byte) ([]byte, error) { return apply(ctx, code, body) }, nil
}

func apply(ctx context.Context, code *gojq.Code, body []byte) ([]byte, error) {
	value, err := decode(body)
	if err != nil {
		return nil, err
	}
	before, err := gojq.Marshal(value)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	ctx, give := context.WithCancelCause(ctx)
	defer give(nil)
	go watchMemory(ctx, give)
	results := code.RunWithContext(ctx, value)
	after, ok := results.Next()
	if !ok {
		return nil, errors.New("the patch produces no value")
	}
	if err, failed := after.(error); failed {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("the patch fails: %w", err)
	}
	encoded, err := gojq.Marshal(after)
	if err != nil {
		return nil, err
	}
	if next, more := results.Next(); more {
		if err, failed := next.(error); failed {
			return nil, fmt.Errorf("the patch fails: %w", err)
		}
		return nil, errors.New("the patch produces more than one value")
	}
	if bytes.Equal(before, encoded) {
		return body, nil
	}
	return encoded, nil
}

// watchMemory ends ctx when the process has grown too much since it was called.
func watchMemory(ctx context.Context, give context.CancelCauseFunc) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	for before := sample[0].Value.Uint64(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if metrics.Read(sample); sample[0].Value.Uint64() > before+maxMemory {
			give(errMemory)
			return
		}
	}
}

func decode(body []byte) (value any, err error) {
	if !utf8.Valid(body) {
		return nil, errors.New("the body is not JSON: it is not text")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err = d.Decode(&value); err != nil {
		return nil, fmt.Errorf("the body is not JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the body is not JSON: something follows the value")
	}
	return value, nil
}
