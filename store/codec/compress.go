package codec

import (
	"runtime"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/pawl-dev/pawl"
)

// compressor holds what is worth keeping between two messages. Safe for concurrent
// use.
type compressor struct {
	writer func() (*zstd.Encoder, error) // EncodeAll keeps a pool of its own
	reader func() (*zstd.Decoder, error) // and so does DecodeAll
}

// newCompressor makes no encoder yet: a store that is only read needs none.
func newCompressor() *compressor {
	return &compressor{
		writer: sync.OnceValues(func() (*zstd.Encoder, error) {
			return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(runtime.GOMAXPROCS(0)),
				zstd.WithLowerEncoderMem(true))
		}),
		reader: sync.OnceValues(func() (*zstd.Decoder, error) {
			return zstd.NewReader(nil, zstd.WithDecoderConcurrency(runtime.GOMAXPROCS(0)), zstd.WithDecoderLowmem(true),
				zstd.WithDecoderMaxMemory(pawl.MaxBody), zstd.WithDecodeAllCapLimit(true))
		}),
	}
}

// shrink compresses content, which may become longer; nil if that fails.
func (c *compressor) shrink(content []byte) []byte {
	w, err := c.writer()
	if err != nil {
		return nil
	}
	return w.EncodeAll(content, make([]byte, 0, len(content)/2+64))
}

// expand decompresses data into exactly length bytes. It never writes more,
// whatever the data says of itself.
func (c *compressor) expand(data []byte, length int) ([]byte, error) {
	r, err := c.reader()
	if err != nil {
		return nil, err
	}
	out, err := r.DecodeAll(data, make([]byte, 0, length))
	if err != nil {
		return nil, damaged("zstd of %d bytes, which should become %d: %w", len(data), length, err)
	}
	return out, nil
}
