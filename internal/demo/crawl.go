package demo

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl"
)

// The topics of the crawl.
const (
	Fetch = "demo.fetch"
	Parse = "demo.parse"
	Save  = "demo.store"
	Pages = "demo.pages"
)

// Slots is how many requests to the host run at once, at most, whatever the
// number of workers and processes.
const Slots = 8

// pause is how long a slot of the host rests after a request.
const pause = 2 * time.Millisecond

// maxPage bounds the body of a page.
const maxPage = 8 << 20

// Record is a stored page, one line of the result.
type Record struct {
	URL         string    `json:"url"`
	FinalURL    string    `json:"final_url"`
	Status      int       `json:"status"`
	Depth       int       `json:"depth"`
	Title       string    `json:"title"`
	ContentType string    `json:"content_type"`
	Charset     string    `json:"charset"`
	Bytes       int       `json:"bytes"`
	SHA256      string    `json:"sha256"`
	FetchedAt   time.Time `json:"fetched_at"`
	ETag        string    `json:"etag,omitempty"`
	Links       int       `json:"links"`
}

// visit is the message that fetches a page, once in a crawl.
func visit(page string, depth int) pawl.Message {
	slot := fnv.New32a()
	_, _ = slot.Write([]byte(page)) // a hash never fails
	return pawl.Message{
		Topic:   Fetch,
		Key:     fmt.Appendf(nil, "%s/%d", Host, slot.Sum32()%Slots),
		Body:    []byte(page),
		Headers: map[string]string{"depth": strconv.Itoa(depth)},
		Unique:  pawl.Unique{Key: page, Scope: "demo visited", For: pawl.Forever},
	}
}

// fetcher gets pages.
type fetcher struct{ client *http.Client }

// Handle gets one page and hands it to the parser.
func (f *fetcher) Handle(ctx context.Context, d *pawl.Delivery) error {
	page := string(d.Body)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return pawl.Permanent(pawl.OfKind("Request", err))
	}
	res, err := f.client.Do(req)
	if err != nil {
		return pawl.OfKind("Download", err)
	}
	defer res.Body.Close()
	if err := refused(res); err != nil {
		return err
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxPage))
	if err != nil {
		return pawl.OfKind("Download", fmt.Errorf("read %s: %w", page, err))
	}
	d.Hold(pause)
	d.Emit(pawl.Message{Topic: Parse, Body: body, Headers: map[string]string{
		"url": page, "final-url": res.Request.URL.String(), "depth": d.Headers["depth"],
		"status": strconv.Itoa(res.StatusCode), "content-type": res.Header.Get("Content-Type"),
		"etag": res.Header.Get("ETag"), "fetched-at": time.Now().UTC().Format(time.RFC3339Nano),
	}})
	return nil
}

// refused turns a status that is not a success into what the policy is to know.
func refused(res *http.Response) error {
	err := fmt.Errorf("GET %s: %s", res.Request.URL, res.Status)
	switch {
	case res.StatusCode == http.StatusTooManyRequests:
		return pawl.Throttled(pawl.OfKind("RateLimit", err), retryAfter(res))
	case res.StatusCode >= 500:
		return pawl.OfKind("Download", err)
	case res.StatusCode != http.StatusOK:
		return pawl.Permanent(pawl.OfKind("Download", err))
	default:
		return nil
	}
}

// maxRetryAfter bounds what a host may ask for.
const maxRetryAfter = time.Hour

// retryAfter reads Retry-After, seconds or a date (RFC 9110, section 10.2.3).
func retryAfter(res *http.Response) time.Duration {
	v := res.Header.Get("Retry-After")
	n, err := strconv.ParseInt(v, 10, 64) // of one that is too large, n is the largest
	if err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(max(n, 0), int64(maxRetryAfter/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(v); err == nil {
		return min(max(time.Until(at), 0), maxRetryAfter)
	}
	return time.Second
}

// parse reads a page: its record goes on to be stored, its links to be fetched.
func parse(_ context.Context, d *pawl.Delivery) error {
	base, err := url.Parse(d.Headers["final-url"])
	if err != nil {
		return pawl.Permanent(pawl.OfKind("Parser", err))
	}
	doc, err := read(bytes.NewReader(d.Body), base)
	if err != nil {
		return pawl.Permanent(pawl.OfKind("Parser", fmt.Errorf("parse %s: %w", d.Headers["url"], err)))
	}
	depth, _ := strconv.Atoi(d.Headers["depth"]) // our own header; a missing one is the seed's
	sum := sha256.Sum256(d.Body)
	fetched, _ := time.Parse(time.RFC3339Nano, d.Headers["fetched-at"])
	status, _ := strconv.Atoi(d.Headers["status"])
	body, err := json.Marshal(Record{
		URL: d.Headers["url"], FinalURL: d.Headers["final-url"], Status: status, Depth: depth,
		Title: doc.title, ContentType: d.Headers["content-type"], Charset: "utf-8", Bytes: len(d.Body),
		SHA256: hex.EncodeToString(sum[:]), FetchedAt: fetched, ETag: d.Headers["etag"], Links: len(doc.links),
	})
	if err != nil {
		return err
	}
	d.Emit(pawl.Message{Topic: Save, Body: body})
	for _, link := range doc.links {
		d.Emit(visit(link, depth+1))
	}
	return nil
}

// save puts a record among the results, once.
func save(_ context.Context, r Record, d *pawl.Delivery) error {
	d.Emit(pawl.Message{
		Topic: Pages, Body: d.Body,
		Unique: pawl.Unique{Key: r.URL, Scope: "demo pages", For: pawl.Forever},
	})
	return nil
}
