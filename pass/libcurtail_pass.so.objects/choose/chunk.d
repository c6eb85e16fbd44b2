libcurtail_pass.so.objects/choose/chunk.o: src/choose/chunk.cpp \
 src/choose/longcalls.h src/choose/loops.h src/choose/choice.h \
 src/facts/facts.h src/options.h src/keepout.h
src/choose/longcalls.h:
src/choose/loops.h:
src/choose/choice.h:
src/facts/facts.h:
src/options.h:
src/keepout.h:
