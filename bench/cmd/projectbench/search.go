package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// The bare loop writes what Pawl writes, in requests of the same size, as many at once.
const (
	batch    = 500
	parallel = 2
)

// mapping refreshes as often as the indices do that Pawl makes.
const mapping = `{"settings":{"number_of_replicas":0,"refresh_interval":"500ms"},"mappings":{"properties":{"n":{"type":"integer"},
	"name":{"type":"keyword"},"category":{"type":"keyword"},"price":{"type":"float"},"text":{"type":"text"}}}}`

// ask sends a request, and decodes the answer into into, if that is not nil.
func ask(ctx context.Context, method, at, kind string, body []byte, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, at, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", kind)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("%s %s: HTTP %d %.300s", method, at, res.StatusCode, text)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(text, into)
}

// bulkLoop writes the documents of n rows with external versions, as fast as it goes, and returns how many a second
// were searchable.
func bulkLoop(ctx context.Context, s *settings, _ string) (float64, error) {
	index := unique()
	at := s.search + "/" + index
	if err := ask(ctx, http.MethodPut, at, "application/json", []byte(mapping), nil); err != nil {
		return 0, err
	}
	defer remove(ctx, at)
	var next atomic.Int64
	errs := make([]error, parallel)
	began := time.Now()
	var wg sync.WaitGroup
	for w := range parallel {
		wg.Go(func() {
			var body bytes.Buffer
			for errs[w] == nil {
				from := int(next.Add(batch)) - batch
				if from >= s.rows {
					return
				}
				body.Reset()
				for i := from; i < min(from+batch, s.rows); i++ {
					fmt.Fprintf(&body, `{"index":{"_id":%q,"version":1,"version_type":"external"}}`+"\n%s\n", id(i),
						document(i))
				}
				errs[w] = bulk(ctx, at, body.Bytes())
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return 0, err
		}
	}
	if err := searchable(ctx, at, s.rows); err != nil {
		return 0, err
	}
	return float64(s.rows) / time.Since(began).Seconds(), nil
}

func bulk(ctx context.Context, at string, body []byte) error {
	var answer struct {
		Errors bool `json:"errors"`
		Items  []map[string]struct {
			Status int `json:"status"`
		} `json:"items"`
	}
	err := ask(ctx, http.MethodPost, at+"/_bulk", "application/x-ndjson", body, &answer)
	if err == nil && answer.Errors {
		err = fmt.Errorf("items failed, the first with status %d", answer.Items[0]["index"].Status)
	}
	return err
}

// searchable refreshes, and wants so many documents to be there.
func searchable(ctx context.Context, at string, want int) error {
	if err := ask(ctx, http.MethodPost, at+"/_refresh", "application/json", nil, nil); err != nil {
		return err
	}
	var answer struct {
		Count int `json:"count"`
	}
	err := ask(ctx, http.MethodGet, at+"/_count", "application/json", nil, &answer)
	if err == nil && answer.Count != want {
		err = fmt.Errorf("%d documents, want %d", answer.Count, want)
	}
	return err
}

// written waits until so many documents were written.
func written(ctx context.Context, at string, want int) error {
	var answer struct {
		All struct {
			Total struct {
				Indexing struct {
					N int `json:"index_total"`
				} `json:"indexing"`
			} `json:"total"`
		} `json:"_all"`
	}
	for end := time.Now().Add(5 * time.Minute); answer.All.Total.Indexing.N < want; time.Sleep(10 * time.Millisecond) {
		if err := ask(ctx, http.MethodGet, at+"/_stats/indexing", "application/json", nil, &answer); err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d documents of %d after five minutes", answer.All.Total.Indexing.N, want)
		}
	}
	return nil
}

func remove(ctx context.Context, at string) {
	_ = ask(context.WithoutCancel(ctx), http.MethodDelete, at, "application/json", nil, nil)
}
