package pipeline_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/pipeline"
)

func flags(values map[string]any) pipeline.Values {
	return pipeline.NewValues([]pipeline.Flag{{Name: "listen"}, {Name: "fault", Type: pipeline.Texts}}, values, nil)
}

func TestSimulateServesUntilItsContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	in := &pipeline.Invocation{Stderr: w, Flags: flags(map[string]any{"listen": "127.0.0.1:0"})}
	ended := make(chan error, 1)
	go func() {
		ended <- pipeline.Simulate(ctx, in, http.NotFoundHandler(), "at http://%s")
		_ = w.Close()
	}()
	greeting := make([]byte, 100)
	n, err := r.Read(greeting)
	if err != nil {
		t.Fatal(err, <-ended)
	}
	_, url, _ := strings.Cut(strings.TrimSpace(string(greeting[:n])), "at ")
	resp, err := http.Get(url)
	if err != nil || resp.StatusCode != http.StatusNotFound {
		t.Fatal(resp, err)
	}
	_ = resp.Body.Close()
	busy := &pipeline.Invocation{Flags: flags(map[string]any{"listen": strings.TrimPrefix(url, "http://")})}
	if _, ok := errors.AsType[*pipeline.Error](pipeline.Simulate(ctx, busy, nil, "")); !ok {
		t.Error("an address in use is no error that says what to do")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestSetFaultsSaysWhichIsWrong(t *testing.T) {
	set := func(name, _ string) error {
		if name != "busy" {
			return errors.New("no such fault")
		}
		return nil
	}
	for text, want := range map[string]string{"busy=1": "", "busy": `"busy"`, "lazy=1": "no such fault"} {
		err := pipeline.SetFaults(&pipeline.Invocation{Flags: flags(map[string]any{"fault": []string{text}})}, set)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("--fault %s: %v", text, err)
		}
	}
}
