package crawl

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/pawl-dev/pawl/pipeline"
)

// cacheFor is how long an answer is kept that no crawl asks for.
const cacheFor = 30 * 24 * time.Hour

// cache keeps answers in files, so that a page is asked for on the condition that it has changed (RFC 9110,
// section 13). Whatever is wrong with a file, its page is asked for without a condition. Processes may share
// the folder.
type cache struct {
	dir string // empty: nothing is kept
	zip *zstd.Encoder
	zap *zstd.Decoder
}

// cached is a file: its head, a line, and its body in zstd.
type cached struct {
	URL    string      `json:"url"`
	Header http.Header `json:"header"`
	SHA256 string      `json:"sha256"`
	body   []byte
}

// keptHeaders are what a page is read by later.
var keptHeaders = []string{"Content-Type", "Etag", "Last-Modified", "X-Robots-Tag", "Refresh"}

func newCache(dir string, maxBytes int64) (*cache, error) {
	if err := pipeline.MakeState(dir); err != nil {
		return nil, err
	}
	pipeline.RemoveState(dir) // put makes it again
	zip, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, err
	}
	zap, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderMaxMemory(uint64(max(maxBytes, 1<<20))))
	return &cache{dir, zip, zap}, err
}

func sumOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func (c *cache) file(u *url.URL) string {
	name := sumOf([]byte(u.String()))
	return filepath.Join(c.dir, name[:2], name[2:])
}

// get returns what is kept of a URL; nil: nothing.
func (c *cache) get(u *url.URL) *cached {
	if c.dir == "" {
		return nil
	}
	text, err := os.ReadFile(c.file(u))
	if err != nil {
		return nil
	}
	var k cached
	head, body, _ := bytes.Cut(text, []byte("\n"))
	if json.Unmarshal(head, &k) != nil || k.URL != u.String() {
		return nil
	}
	if k.body, err = c.zap.DecodeAll(body, nil); err != nil || sumOf(k.body) != k.SHA256 {
		return nil
	}
	return &k
}

// condition makes a request conditional on a change of the page.
func (k *cached) condition(req *http.Request) {
	if tag := k.Header.Get("Etag"); tag != "" {
		req.Header.Set("If-None-Match", tag)
	}
	if at := k.Header.Get("Last-Modified"); at != "" {
		req.Header.Set("If-Modified-Since", at)
	}
}

// put keeps an answer that supports conditional requests. One that cannot be written is fetched in full next time.
func (c *cache) put(u *url.URL, a *answer) {
	if c.dir == "" || a.header.Get("Etag") == "" && a.header.Get("Last-Modified") == "" {
		return
	}
	k := cached{URL: u.String(), Header: http.Header{}, SHA256: a.sha256}
	for _, name := range keptHeaders {
		if v := a.header[name]; v != nil {
			k.Header[name] = v
		}
	}
	head, err := json.Marshal(k)
	if err != nil {
		return
	}
	at := c.file(u)
	_ = pipeline.MakeState(filepath.Dir(at)) // CreateTemp would say so
	f, err := os.CreateTemp(filepath.Dir(at), "new-*")
	if err != nil {
		return
	}
	// Not pipeline.WriteFile: syncing each page costs more than fetching again what a power cut took; get notices it.
	_, err = f.Write(c.zip.EncodeAll(a.body, append(head, '\n')))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), at)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
}

// used renews the age of the file.
func (c *cache) used(u *url.URL) {
	now := time.Now()
	_ = os.Chtimes(c.file(u), now, now) // else it is asked for as a whole in a month
}

// prune removes what no crawl has asked for in a long time.
func (c *cache) prune() {
	if c.dir == "" {
		return
	}
	var dirs []string
	_ = filepath.WalkDir(c.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // what cannot be read stays
		}
		if d.IsDir() {
			dirs = append(dirs, path)
			return nil
		}
		if info, err := d.Info(); err == nil && time.Since(info.ModTime()) > cacheFor {
			_ = os.Remove(path)
		}
		return nil
	})
	for _, dir := range slices.Backward(dirs) { // an inner one before those around it
		pipeline.RemoveState(dir)
	}
}
