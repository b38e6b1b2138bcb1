package doc

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"path"
	"strings"

	"github.com/pawl-dev/pawl/pipeline/internal/markdown/charset"
	"github.com/pawl-dev/pawl/pipeline/internal/markdown/markup"
)

// What comes out of an archive at most. A bomb has a ratio near 1,000; office files stay far below.
const (
	MaxEntries   = 20_000
	MaxEntry     = 256 << 20
	MaxArchive   = 512 << 20
	maxRatio     = 400
	ratioMatters = 8 << 20
)

// Archive is a zip file that is read in bounded memory.
type Archive struct {
	Entries []*zip.File
	names   map[string]*zip.File
	left    *int64 // bytes that may still come out
	charset string // of names that do not say it; empty: not asked for yet
}

// OpenZip opens a document that is an archive. What is unpacked counts for the archive around it, too.
func OpenZip(d *Document) (*Archive, error) {
	data := d.Data
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		if Encrypted(data) {
			return nil, Fail(KindLocked, "it is encrypted; save it without a password")
		}
		return nil, Fail(KindCorrupt, "it is not a complete zip archive: %w", err)
	}
	if len(z.File) > MaxEntries {
		return nil, Fail(KindTooLarge, "its archive has %d entries; %d are the limit", len(z.File), MaxEntries)
	}
	if d.Budget == nil {
		d.Budget = new(int64(MaxArchive))
	}
	a := &Archive{Entries: z.File, names: make(map[string]*zip.File, len(z.File)), left: d.Budget}
	for _, f := range z.File {
		name := strings.ToLower(strings.TrimPrefix(path.Clean(strings.ReplaceAll(f.Name, `\`, "/")), "/"))
		if _, twice := a.names[name]; !twice {
			a.names[name] = f
		}
	}
	return a, nil
}

// Encrypted reports whether it is an office file with a password: those are compound files, not zip archives.
func Encrypted(data []byte) bool {
	stream := strings.Join(strings.Split("EncryptedPackage", ""), "\x00") // in UTF-16
	return bytes.HasPrefix(data, []byte("\xd0\xcf\x11\xe0")) && bytes.Contains(data, []byte(stream))
}

// Name of an entry in UTF-8. Those that do not say their encoding have one in common, which is guessed of them all.
func (a *Archive) Name(f *zip.File) string {
	if !f.NonUTF8 {
		return f.Name
	}
	if a.charset == "" {
		var all []byte
		for _, e := range a.Entries {
			if e.NonUTF8 {
				all = append(append(all, e.Name...), '\n')
			}
		}
		_, found := charset.Read(all, "")
		a.charset = found.Name
	}
	return charset.As([]byte(f.Name), a.charset)
}

// Has reports whether there is an entry. Names do not depend on case.
func (a *Archive) Has(name string) bool { return a.names[key(name)] != nil }

func key(name string) string { return strings.ToLower(strings.TrimPrefix(path.Clean("/"+name), "/")) }

// Bytes reads an entry; nil if there is none.
func (a *Archive) Bytes(name string) ([]byte, error) {
	f := a.names[key(name)]
	if f == nil {
		return nil, nil
	}
	return a.Read(f)
}

// Text reads an entry that is XML; empty if there is none.
func (a *Archive) Text(name string) (string, error) {
	b, err := a.Bytes(name)
	if err != nil || b == nil {
		return "", err
	}
	return charset.Decode(b, ""), nil
}

// Tree reads an entry that is XML as a whole; nil if there is none.
func (a *Archive) Tree(name string) (*markup.Node, error) {
	if name == "" || !a.Has(name) {
		return nil, nil
	}
	text, err := a.Text(name)
	if err != nil {
		return nil, err
	}
	n, err := markup.Parse(text)
	return n, Broken(name, err)
}

// Broken makes an error of the document of an error of the XML in it.
func Broken(name string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, markup.ErrDepth):
		return Fail(KindNesting, "%s in it: %w", name, err)
	}
	return Fail(KindCorrupt, "%s in it: %w", name, err)
}

// Read reads an entry.
func (a *Archive) Read(f *zip.File) ([]byte, error) {
	if f.Flags&1 != 0 {
		return nil, Fail(KindLocked, "%s in it has a password", f.Name)
	}
	size := f.UncompressedSize64
	if size > MaxEntry || int64(size) > *a.left || size > ratioMatters && size > maxRatio*max(f.CompressedSize64, 1) {
		return nil, Fail(KindTooLarge, "%s in it is %d bytes when unpacked, of %d packed", f.Name, size,
			f.CompressedSize64)
	}
	r, err := f.Open()
	if err != nil {
		return nil, Fail(KindCorrupt, "%s in it cannot be unpacked: %w", f.Name, err)
	}
	defer func() { _ = r.Close() }()
	// The reader stops at the size that the directory states, so that a lie there costs nothing.
	out := make([]byte, 0, min(size, 64<<20)+bytes.MinRead)
	buf := bytes.NewBuffer(out)
	_, err = buf.ReadFrom(io.LimitReader(r, int64(size)+1))
	*a.left -= int64(buf.Len())
	if err != nil {
		return nil, Fail(KindCorrupt, "%s in it cannot be unpacked: %w", f.Name, err)
	}
	return buf.Bytes(), nil
}
