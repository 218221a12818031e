package wandb

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
)

const (
	block  = 1 << 15
	header = 7 // bytes before each part, and at the beginning of the file
)

// What a part is of its record.
const (
	whole byte = iota + 1
	first
	middle
	last
)

// log is a file of records.
type log struct {
	file *os.File
	at   int    // bytes written
	buf  []byte // reused
}

func openLog(path string) (*log, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	l := &log{file: f}
	const magic, version = 0xBEE1, 0
	l.buf = append(binary.LittleEndian.AppendUint16([]byte(":W&B"), magic), version)
	return l, l.flush()
}

// add writes a record.
func (l *log) add(data []byte) error {
	l.buf = l.buf[:0]
	for begun := false; ; begun = true {
		room := block - (l.at+len(l.buf))%block
		if room < header {
			l.buf = append(l.buf, make([]byte, room)...)
			room = block
		}
		n := min(len(data), room-header)
		l.part(kindOf(begun, n == len(data)), data[:n])
		if data = data[n:]; len(data) == 0 {
			return l.flush()
		}
	}
}

func kindOf(begun, ends bool) byte {
	switch {
	case !begun && ends:
		return whole
	case !begun:
		return first
	case !ends:
		return middle
	}
	return last
}

func (l *log) part(kind byte, data []byte) {
	sum := crc32.Update(crc32.ChecksumIEEE([]byte{kind}), crc32.IEEETable, data)
	l.buf = binary.LittleEndian.AppendUint32(l.buf, sum)
	l.buf = binary.LittleEndian.AppendUint16(l.buf, uint16(len(data)))
	l.buf = append(append(l.buf, kind), data...)
}

func (l *log) flush() error {
	n, err := l.file.Write(l.buf)
	l.at += n
	return err
}

func (l *log) close() error { return errors.Join(l.file.Sync(), l.file.Close()) }
