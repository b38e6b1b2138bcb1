package crawl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/pipeline/internal/markdown"
)

// folderMark is the file that tells a folder of pages from one with a person's own files, which is never replaced.
const folderMark = ".pawl-crawl"

// isFolder reports whether an out is a folder of Markdown: it ends in a slash, has no extension, or is one already.
func isFolder(out string) bool {
	if _, ok := databaseOf(out); ok || strings.Contains(out, "://") {
		return false
	}
	if info, err := os.Stat(out); err == nil {
		return info.IsDir()
	}
	return strings.HasSuffix(out, "/") || out != "" && filepath.Ext(out) == ""
}

// checkFolder refuses a folder with files that no crawl wrote: the whole folder is replaced at the end.
func checkFolder(out string) error {
	if base := filepath.Base(out); base == "." || base == ".." || base == "/" {
		return fmt.Errorf("the folder %s cannot be replaced; name one in it", out)
	}
	entries, err := os.ReadDir(out)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(out, folderMark)); err != nil {
		return fmt.Errorf(
			"the folder %s has files that no crawl has written, and a crawl would replace them; name a new or empty folder",
			out)
	}
	return nil
}

// writeFolder replaces a folder by one with a Markdown file for each page. A folder beside it is filled, and takes its
// place at the end.
func writeFolder(out string, each func(pageWriter) error) error {
	if err := checkFolder(out); err != nil {
		return cannotWrite(err)
	}
	part := out + ".part"
	err := os.RemoveAll(part) // of a crawl that was killed
	if err == nil {
		err = os.MkdirAll(part, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(part, folderMark), []byte("The next crawl replaces this folder.\n"), 0o644)
	}
	if err != nil {
		return cannotWrite(err)
	}
	if err := each(func(r *Record, text string) error { return writePage(part, r, text) }); err != nil {
		_ = os.RemoveAll(part)
		return err
	}
	return notWritten(replaceFolder(out, part))
}

func replaceFolder(out, part string) error {
	old := part + "-old"
	if err := os.RemoveAll(old); err != nil { // of a crawl that was killed
		return err
	}
	if err := os.Rename(out, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return errors.Join(os.Rename(part, out), os.RemoveAll(old))
}

// writePage writes the file of a page. Where another page has its name, or the system does not take it, the file is
// named after a hash of the URL.
func writePage(dir string, r *Record, text string) error {
	content, err := document(r, text)
	if err != nil {
		return err
	}
	u, err := url.Parse(r.URL)
	if err != nil {
		return err
	}
	hashed := filepath.Join(escaped(site(u)), sumOf([]byte(r.URL))[:32]+".md")
	for _, name := range []string{fileName(u), hashed} {
		path := filepath.Join(dir, name)
		var f *os.File
		if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
			f, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		}
		if err != nil {
			continue
		}
		_, err = f.Write(content)
		return errors.Join(err, f.Sync(), f.Close())
	}
	return err
}

// fileName is HOST/PATH.md, and HOST/PATH/index.md for a path that ends in a slash.
func fileName(u *url.URL) string {
	parts := append([]string{site(u)}, strings.Split(strings.TrimPrefix(u.EscapedPath(), "/"), "/")...)
	last := len(parts) - 1
	if parts[last] == "" {
		parts[last] = "index"
	}
	if u.RawQuery != "" {
		parts[last] += "?" + u.RawQuery
	}
	for i := range parts {
		parts[i] = escaped(parts[i])
		if i < last && strings.HasSuffix(parts[i], ".md") {
			parts[i] += "%" // /a.md/b is not a file in that of /a
		}
	}
	return filepath.Join(parts...) + ".md"
}

// escaped is a part of a URL as the name of a file: what has a meaning to file systems is not in it.
func escaped(part string) string {
	var b strings.Builder
	for i := range len(part) {
		switch c := part[i]; {
		case c == '.' && i == 0, c <= ' ', c >= 0x7f, strings.IndexByte(`/\:*?"<>|`, c) >= 0:
			fmt.Fprintf(&b, "%%%02X", c)
		default:
			b.WriteByte(c)
		}
	}
	if b.Len() == 0 {
		return "%"
	}
	return b.String()
}

// document is a page's Markdown under its record as front matter, which is YAML: each value is JSON, and so YAML, too.
func document(r *Record, text string) ([]byte, error) {
	var record bytes.Buffer
	e := json.NewEncoder(&record)
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		return nil, err
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal(record.Bytes(), &values); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("---\n")
	for _, name := range append(slices.Clip(columns), "items") {
		if value, ok := values[name]; ok {
			fmt.Fprintf(&b, "%s: ", name)
			for _, c := range string(value) {
				// JSON takes these in a text, YAML does not
				if c >= 0x7f && c < 0xa0 || c == 0xfeff || c == 0xfffe || c == 0xffff {
					fmt.Fprintf(&b, `\u%04x`, c)
				} else {
					b.WriteRune(c)
				}
			}
			b.WriteByte('\n')
		}
	}
	b.WriteString("---\n")
	if text != "" {
		b.WriteString("\n" + strings.TrimRight(text, "\n") + "\n")
	}
	return b.Bytes(), nil
}

// markdownOf is a page as Markdown: HTML converted, other text as it is, and nothing of what is not a text.
func markdownOf(body []byte, p *page) (string, error) {
	if p.charset == "" {
		return "", nil
	}
	text := strings.ToValidUTF8(string(p.text(body)), "\uFFFD")
	switch {
	case p.kind == "text/html" || p.kind == "application/xhtml+xml":
		text, _ = markdown.FromHTML(text, markdown.Options{Base: p.base})
	case p.kind != "text/plain" && p.kind != "text/markdown":
		var w markdown.Writer
		w.Fence("", text)
		text = w.String()
	}
	return text, nil
}
