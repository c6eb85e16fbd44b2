libcurtail_pass.so.objects/choose/choice.o: src/choose/choice.cpp \
 src/choose/choice.h src/facts/facts.h src/options.h src/keepout.h \
 src/choose/longcalls.h src/choose/loops.h src/facts/coldcalls.h
src/choose/choice.h:
src/facts/facts.h:
src/options.h:
src/keepout.h:
src/choose/longcalls.h:
src/choose/loops.h:
src/facts/coldcalls.h:
