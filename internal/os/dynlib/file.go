package dynlib

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// checkFile says what is wrong with a library that is named by its path, where the system's loader would wait for
// ever, as at a pipe, or end the process, as at a file that is cut off.
func checkFile(path string) error {
	if filepath.Base(path) == path { // which the loader finds by itself
		return nil
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil // for the loader to say
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New("it is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if need := loaded(f); need > uint64(info.Size()) {
		return fmt.Errorf("it is cut off: it has %d bytes, and %d of it would be loaded; copy it again", info.Size(), need)
	}
	return nil
}

// loaded returns up to where an ELF file of 64 bits, little endian, is mapped when it is loaded; 0 of any other file.
func loaded(f io.ReaderAt) (end uint64) {
	var h elf.Header64
	r := io.NewSectionReader(f, 0, 1<<62)
	if err := binary.Read(r, binary.LittleEndian, &h); err != nil || string(h.Ident[:4]) != elf.ELFMAG ||
		elf.Class(h.Ident[elf.EI_CLASS]) != elf.ELFCLASS64 || elf.Data(h.Ident[elf.EI_DATA]) != elf.ELFDATA2LSB {
		return 0
	}
	for i := range int64(h.Phnum) {
		var p elf.Prog64
		at := io.NewSectionReader(f, int64(h.Phoff)+i*int64(h.Phentsize), 1<<31)
		if err := binary.Read(at, binary.LittleEndian, &p); err != nil {
			return 0
		}
		if elf.ProgType(p.Type) == elf.PT_LOAD {
			end = max(end, p.Off+p.Filesz)
		}
	}
	return end
}
