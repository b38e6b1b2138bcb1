package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
)

//go:embed static/*
var staticFiles embed.FS

// asset is a file for the browser, packed.
type asset struct {
	kind, hash    string
	plain, packed []byte
}

// assets are the files for the browser by name.
var assets = sync.OnceValue(func() map[string]*asset {
	all := map[string]*asset{}
	names, err := fs.Glob(staticFiles, "static/*")
	if err != nil {
		panic(err) // the pattern is right
	}
	for _, name := range names {
		b, err := fs.ReadFile(staticFiles, name)
		if err != nil {
			panic(err) // it is in the binary
		}
		sum := sha256.Sum256(b)
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		_, _ = z.Write(b) // a buffer takes all
		_ = z.Close()
		all[path.Base(name)] = &asset{kind: mime.TypeByExtension(path.Ext(name)), hash: hex.EncodeToString(sum[:6]),
			plain: b, packed: packed.Bytes()}
	}
	return all
})

// serveStatic serves a file of the console. Its address has its hash, so that browsers may keep it.
func serveStatic(w http.ResponseWriter, r *http.Request) {
	a := assets()[r.PathValue("name")]
	if a == nil {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("Cache-Control", "no-cache")
	if r.URL.Query().Get("v") == a.hash {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	h.Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		_, _ = w.Write(a.packed) // the browser asks again
		return
	}
	_, _ = w.Write(a.plain) // the browser asks again
}
