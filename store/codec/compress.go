package codec

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// compressors hold what is worth keeping between two messages. Safe for
// concurrent use.
type compressors struct {
	zstdWriter func() (*zstd.Encoder, error) // EncodeAll keeps a pool of its own
	zstdReader func() (*zstd.Decoder, error) // and so does DecodeAll
	lz4Writers sync.Pool
	lz4Readers sync.Pool
}

// newCompressors makes no encoder yet: who only reads needs none.
func newCompressors() *compressors {
	return &compressors{
		zstdWriter: sync.OnceValues(func() (*zstd.Encoder, error) {
			return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(runtime.GOMAXPROCS(0)),
				zstd.WithLowerEncoderMem(true))
		}),
		zstdReader: sync.OnceValues(func() (*zstd.Decoder, error) {
			return zstd.NewReader(nil, zstd.WithDecoderConcurrency(runtime.GOMAXPROCS(0)), zstd.WithDecoderLowmem(true),
				zstd.WithDecoderMaxMemory(maxContent), zstd.WithDecodeAllCapLimit(true))
		}),
		lz4Writers: sync.Pool{New: func() any { return lz4.NewWriter(nil) }},
		lz4Readers: sync.Pool{New: func() any { return lz4.NewReader(nil) }},
	}
}

// shrink compresses content, which may become longer; nil if that fails.
func (c *compressors) shrink(step string, content []byte) []byte {
	if step == stepLZ4 {
		return c.shrinkLZ4(content)
	}
	w, err := c.zstdWriter()
	if err != nil {
		return nil
	}
	return w.EncodeAll(content, make([]byte, 0, len(content)/2+64))
}

// shrinkLZ4 makes a frame with a checksum, which every LZ4 tool reads.
func (c *compressors) shrinkLZ4(content []byte) []byte {
	w := c.lz4Writers.Get().(*lz4.Writer)
	defer c.lz4Writers.Put(w)
	out := bytes.NewBuffer(make([]byte, 0, len(content)/2+64))
	w.Reset(out)
	if err := w.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(true),
		lz4.ConcurrencyOption(1)); err != nil {
		return nil
	}
	if _, err := w.Write(content); err != nil {
		return nil
	}
	if err := w.Close(); err != nil {
		return nil
	}
	return out.Bytes()
}

// expand decompresses data into exactly length bytes. It never writes more,
// whatever the data says of itself.
func (c *compressors) expand(step string, data []byte, length int) ([]byte, error) {
	var out []byte
	var err error
	switch step {
	case stepZstd:
		out, err = c.expandZstd(data, length)
	case stepLZ4:
		out, err = c.expandLZ4(data, length)
	}
	if err != nil {
		return nil, damaged("%s of %d bytes, which should become %d: %w", step, len(data), length, err)
	}
	if len(out) != length {
		return nil, damaged("%s of %d bytes became %d, not %d", step, len(data), len(out), length)
	}
	return out, nil
}

func (c *compressors) expandZstd(data []byte, length int) ([]byte, error) {
	r, err := c.zstdReader()
	if err != nil {
		return nil, err
	}
	return r.DecodeAll(data, make([]byte, 0, length))
}

func (c *compressors) expandLZ4(data []byte, length int) ([]byte, error) {
	r := c.lz4Readers.Get().(*lz4.Reader)
	in := bytes.NewReader(data)
	r.Reset(in)
	defer func() {
		r.Reset(nil) // keeps no message alive
		c.lz4Readers.Put(r)
	}()
	out := make([]byte, length)
	if _, err := io.ReadFull(r, out); err != nil {
		return nil, err
	}
	switch n, err := io.CopyN(io.Discard, r, 1); {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, err
	case n > 0 || in.Len() > 0:
		return nil, errors.New("there is more of it")
	}
	return out, nil
}
