import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.Charset;

/** Prints what Java decodes: a line a page, the code of the character of each byte or pair of bytes. */
public class CodePages {
    static String code(Charset charset, byte... bytes) {
        try {
            String text = charset.newDecoder().decode(ByteBuffer.wrap(bytes)).toString();
            return text.length() == 1 ? Integer.toHexString(text.charAt(0)) : "-";
        } catch (CharacterCodingException wrong) {
            return "-";
        }
    }

    public static void main(String[] names) {
        for (String name : names) {
            Charset charset = Charset.forName(name);
            StringBuilder line = new StringBuilder(name);
            for (int i = 0; i < 256; i++) line.append(' ').append(code(charset, (byte) i));
            boolean bare = name.equals("x-IBM300");
            for (int i = 0; i < 65536; i++) {
                byte high = (byte) (i >> 8), low = (byte) i;
                boolean shift = high == 14 || high == 15 || low == 14 || low == 15;
                String found = shift ? "-"
                    : bare ? code(charset, high, low) : code(charset, (byte) 14, high, low, (byte) 15);
                line.append(' ').append(found);
            }
            System.out.println(line);
        }
    }
}
