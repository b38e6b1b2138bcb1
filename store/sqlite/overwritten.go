package sqlite

import (
	"bytes"
	"encoding/binary"
	"os"
	"time"
)

// inside is the beginning of the file, of its log and of its shared memory, as far as it tells whether
// something else than SQLite wrote to them: a copy over the file, or a truncation.
type inside struct {
	file, log, shm piece
	changes        uint32 // the counter of changes in the file, as last seen
	size           int64  // of the file, as last seen
}

// piece is one of the files, and the number of a descriptor that SQLite has of it.
type piece struct {
	info os.FileInfo // nil: it was not there
	fd   int
}

// overwritten reports whether they hold what is not SQLite's. What another process is about to write may look so for a
// moment.
func (i *identity) overwritten() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	for range 3 {
		if !i.inside.fileOverwritten() && !i.inside.logOverwritten() {
			return false
		}
		time.Sleep(2 * time.Millisecond)
	}
	return true
}

// fileOverwritten looks at the header of the file: the counter of its changes never goes back, and only a checkpoint
// that has written all pages truncates it.
func (c *inside) fileOverwritten() bool {
	var header [100]byte
	n, size, ok := c.file.read(header[:])
	if !ok {
		return false
	}
	if n < len(header) || string(header[:16]) != "SQLite format 3\x00" {
		return true
	}
	changes := binary.BigEndian.Uint32(header[24:])
	pages, pageSize := binary.BigEndian.Uint32(header[28:]), binary.BigEndian.Uint16(header[16:])
	cut := size < c.size && size < int64(pages)*sizeOfPage(pageSize)
	if int32(changes-c.changes) < 0 && c.size > 0 || cut { //nolint:gosec // it may wrap around
		return true
	}
	c.changes, c.size = changes, size
	return false
}

// logOverwritten compares log and file with the index in the shared memory: the log has all frames that the index
// counts, and the same random salt; the file has all pages, once all frames are in it. The index is read twice, because
// another process may begin the log anew.
func (c *inside) logOverwritten() bool {
	var before, after [100]byte // two copies of 48 bytes, and how many frames are in the file
	var header [32]byte
	if n, _, ok := c.shm.read(before[:]); !ok || n < len(before) || !bytes.Equal(before[:48], before[48:96]) {
		return false
	}
	n, size, ok := c.log.read(header[:])
	_, fileSize, okFile := c.file.read(nil)
	if _, _, again := c.shm.read(after[:]); !ok || !again || before != after {
		return false
	}
	frames := int64(binary.NativeEndian.Uint32(before[16:]))
	if frames == 0 {
		return false
	}
	pageSize := sizeOfPage(binary.NativeEndian.Uint16(before[14:]))
	whole := pageSize * int64(binary.NativeEndian.Uint32(before[20:]))
	if okFile && fileSize != whole && frames == int64(binary.NativeEndian.Uint32(before[96:])) {
		return true
	}
	least := int64(len(header)) + frames*(24+pageSize)
	return n < len(header) || size < least || !bytes.Equal(header[16:24], before[32:40])
}

// sizeOfPage is the size of a page as SQLite writes it: 65,536 has no room in 16 bits.
func sizeOfPage(stored uint16) int64 {
	if stored == 1 {
		return 65_536
	}
	return int64(stored)
}
