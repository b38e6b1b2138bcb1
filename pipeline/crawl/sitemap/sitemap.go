// Package sitemap reads sitemaps: XML, its indexes, and lists of URLs (sitemaps.org).
package sitemap

import (
	"bytes"
	"compress/gzip"
	"encoding/xml"
	"errors"
	"io"
	"strings"
)

// maxText bounds a sitemap that is unpacked.
const maxText = 50 << 20

// unpack unpacks a body that is a gzip file, within a bound. Some servers pack a packed file again.
func unpack(body []byte, packings int) ([]byte, error) {
	if !bytes.HasPrefix(body, []byte{0x1f, 0x8b}) {
		return body, nil
	}
	if packings == 0 {
		return nil, errors.New("the sitemap is packed too often")
	}
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(z, maxText+1))
	if len(text) > maxText {
		return nil, errors.New("the sitemap is too large")
	}
	if err != nil {
		return nil, err
	}
	return unpack(text, packings-1)
}

// Link is one of a sitemap.
type Link struct {
	URL   string
	Index bool // it leads to another sitemap
}

// Read returns the links of a sitemap or of an index, up to where it can be read: XML, or a line for each, gzip or not.
// The error is that it cannot be unpacked, or is larger than 50 MiB then.
func Read(body []byte) (links []Link, err error) {
	text, err := unpack(body, 3)
	if err != nil {
		return nil, err
	}
	text = bytes.TrimPrefix(text, []byte("\uFEFF"))
	if !bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("<")) {
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" {
				links = append(links, Link{URL: line})
			}
		}
		return links, nil
	}
	z := xml.NewDecoder(bytes.NewReader(text))
	z.Strict = false
	z.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil } // URLs are ASCII
	var path []string
	var loc strings.Builder
	for {
		t, err := z.Token()
		if err != nil {
			return links, nil //nolint:nilerr // what comes before counts
		}
		switch t := t.(type) {
		case xml.StartElement:
			if path = append(path, t.Name.Local); len(path) > 32 {
				return links, nil
			}
			loc.Reset()
		case xml.CharData:
			if len(path) > 0 && path[len(path)-1] == "loc" && loc.Len() < 8<<10 {
				loc.Write(t)
			}
		case xml.EndElement:
			if n := len(path); n > 1 && path[n-1] == "loc" && (path[n-2] == "url" || path[n-2] == "sitemap") {
				links = append(links, Link{strings.TrimSpace(loc.String()), path[n-2] == "sitemap"})
			}
			path = path[:max(0, len(path)-1)]
		}
	}
}
