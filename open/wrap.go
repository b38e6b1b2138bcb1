package open

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/redact"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/codec"
	"github.com/pawl-dev/pawl/store/spill"
)

// Options of the URL of any store, which put a decorator around it.
const (
	optionCodec   = "codec"   // how bodies are compressed: zstd; none reads only
	optionBlobs   = "blobs"   // folder of large bodies
	optionOffload = "offload" // bytes above which a body goes there

	optionFallback = "fallback" // URL of a store for messages that this one does not accept
	optionPatience = "patience" // how long this store has to take a message before it goes there
)

var wrapOptions = []string{
	optionCodec, optionBlobs, optionOffload, optionFallback, optionPatience,
}

// defaultPatience is how long a store with a fallback has to take a message.
const defaultPatience = 10 * time.Second

// wrapping is what the options of a URL put around its store.
type wrapping struct {
	fallback string
	spill    spill.Config
	codec    *codec.Config
}

// unwrapURL takes the options of decorators out of a URL.
func unwrapURL(text string) (string, wrapping, error) {
	base, query, ok := strings.Cut(text, "?")
	if !ok {
		return text, wrapping{}, nil
	}
	var kept []string
	ours := url.Values{}
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if !slices.Contains(wrapOptions, name) {
			kept = append(kept, pair)
			continue
		}
		plain, err := url.QueryUnescape(value)
		if err != nil {
			return text, wrapping{}, urlError("option %s cannot be read: escape special characters as %%XX", name)
		}
		ours.Set(name, plain)
	}
	w, err := readWrapping(ours)
	if len(kept) > 0 {
		base += "?" + strings.Join(kept, "&")
	}
	return base, w, err
}

func readWrapping(options url.Values) (w wrapping, err error) {
	w.fallback = options.Get(optionFallback)
	w.spill = spill.Config{PrimaryTimeout: defaultPatience}
	if d := options.Get(optionPatience); d != "" {
		if w.spill.PrimaryTimeout, err = time.ParseDuration(d); err != nil {
			return w, urlError("option %s is %q; it is a duration like 10s", optionPatience, d)
		}
	}
	for _, name := range []string{optionFallback, optionPatience} {
		options.Del(name)
	}
	if len(options) == 0 {
		return w, nil
	}
	c := &codec.Config{Blobs: options.Get(optionBlobs)}
	switch name := options.Get(optionCodec); name {
	case "zstd":
		c.Compress = true
	case "", "none":
	default:
		return w, urlError("option %s is %q; it is zstd or none", optionCodec, name)
	}
	if n := options.Get(optionOffload); n != "" {
		if c.Offload, err = strconv.Atoi(n); err != nil {
			return w, urlError("option %s is %q; it is a number of bytes", optionOffload, n)
		}
	}
	w.codec = c
	return w, nil
}

// database names the place where the store of a URL keeps its messages, so that two
// URLs of one database can be told; empty: that cannot be told of it.
func database(url string) string {
	return about(url, func(b backend) func(string) string { return b.identity })
}

// SameStore reports whether two URLs are surely of one store. They may be where it does
// not tell so: a host has many names.
func SameStore(a, b string) bool {
	at := database(a)
	return a == b || at != "" && at == database(b)
}

// check reports what is wrong with the options, as far as that shows without opening anything.
func (w wrapping) check() error {
	var errs []error
	if w.fallback != "" {
		err := Check(w.fallback)
		if b, ok := backendOf(w.fallback); err == nil && ok {
			err = w.spill.Check(b.describe())
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("its fallback %s: %w", redact.URL(w.fallback), err))
		}
	}
	if w.codec != nil {
		errs = append(errs, w.codec.Check())
	}
	return errors.Join(errs...)
}

// wrap puts decorators around a store that was opened. It closes the store if that
// fails.
func (w wrapping) wrap(ctx context.Context, s store.Store, c Config) (store.Store, error) {
	fail := func(err error) (store.Store, error) { return nil, errors.Join(err, s.Close()) }
	if w.fallback != "" {
		c.URL = w.fallback
		fallback, err := Open(ctx, c)
		if err != nil {
			return fail(fmt.Errorf("its fallback %s: %w", redact.URL(c.URL), err))
		}
		spilled, err := spill.New(s, fallback, w.spill)
		if err != nil {
			return fail(errors.Join(err, fallback.Close()))
		}
		s = spilled
	}
	if w.codec != nil {
		encoded, err := codec.New(s, *w.codec)
		if err != nil {
			return fail(fmt.Errorf("%w: %w", ErrURL, err))
		}
		s = encoded
	}
	return s, nil
}
