package crawl

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// codings are what servers may send bodies in.
const codings = "gzip, deflate, br, zstd"

// maxWindow bounds what a body in zstd may make its reader allocate: RFC 9659 allows servers no more.
const maxWindow = 8 << 20

// plain reads a body without its Content-Encoding. free is to be called when it is read; it does not close the body.
func plain(resp *http.Response) (body io.Reader, free func(), err error) {
	body, free = resp.Body, func() {}
	all := strings.Split(strings.ToLower(strings.Join(resp.Header.Values("Content-Encoding"), ",")), ",")
	for i := len(all) - 1; i >= 0; i-- { // the last one was applied last
		switch coding := strings.TrimSpace(all[i]); coding {
		case "gzip", "x-gzip":
			b := bufio.NewReader(body)
			if head, _ := b.Peek(2); string(head) != "\x1f\x8b" { // empty, or plain in spite of its header
				body = b
				continue
			}
			z, err := gzip.NewReader(b)
			if err != nil {
				return nil, free, fmt.Errorf("the body is not in gzip, as its Content-Encoding says: %w", err)
			}
			body = z
		case "deflate":
			body = inflate(body)
		case "br":
			body = brotli.NewReader(body)
		case "zstd":
			z, err := zstd.NewReader(body, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
			if err != nil {
				return nil, free, err
			}
			inner := free
			body, free = z, func() { z.Close(); inner() }
		default: // identity, none, or a word that is no coding, such as utf-8
		}
	}
	return body, free, nil
}

// inflate reads what servers call deflate: zlib, as the standard has it, or its bare content.
func inflate(body io.Reader) io.Reader {
	b := bufio.NewReader(body)
	if head, err := b.Peek(2); err == nil && head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		if z, err := zlib.NewReader(b); err == nil {
			return z
		}
	}
	return flate.NewReader(b)
}
